//! Many agents that race for the next issue.

use crate::place::Place;
use crate::process::Child;

/// Returns how often an agent takes an issue and gives it back: 10,000 times among all agents where
/// the long campaigns run.
fn rounds() -> usize {
    match std::env::var_os("TENURE_TEST_EVERY_CALL") {
        Some(_) => 10_000,
        None => 1500,
    }
}

#[test]
fn of_many_agents_that_race_for_the_next_issue_never_two_have_one_and_none_is_lost() {
    const AGENTS: usize = 6;
    const ISSUES: usize = 24;
    let place = Place::new();
    let ids: Vec<String> = (0..ISSUES).map(|number| format!("i{number}")).collect();
    place.add(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let root = place.root().display().to_string();
    let each = (rounds() / AGENTS).to_string();
    let start = |number: usize| Child::start("agent", &[&root, &format!("agent:{number}"), &each]);
    let children: Vec<Child> = (0..AGENTS).map(start).collect();
    let (mut given_back, mut all) = (0, 0);
    for mut child in children {
        let answer = child.answer();
        let (released, done) = answer.split_once(' ').unwrap();
        // Other agents may have done everything before this one had all its rounds.
        given_back += released.parse::<usize>().unwrap();
        all += done.parse::<usize>().unwrap();
        child.finish();
    }
    assert_eq!(all, ISSUES, "each is done by one agent");
    let events = place.board().events_after(0).unwrap();
    let of = |kind: &str| {
        let is_kind =
            |event: &&tenure_board::log::BoardEvent| event.field("type").as_deref() == Some(kind);
        events.iter().filter(is_kind).count()
    };
    assert_eq!(of("issue_claimed"), given_back + ISSUES);
    assert_eq!(
        (of("claim_released"), of("issue_done")),
        (given_back, ISSUES)
    );
    eprintln!("{} claims by {AGENTS} agents", given_back + ISSUES);
    assert!(given_back > rounds() / 2, "{given_back}");
}

#[test]
fn commands_that_race_for_the_next_issue_each_get_another_one() {
    let place = Place::new();
    place.add(&["a", "b", "c", "d"]);
    let take = |number: usize| {
        let owner = format!("agent:{number}");
        let mut command = place.command(&["next", "--claim", "--owner", &owner]);
        crate::site::Process::start(command.env("TENURE_LOCK_TIMEOUT", "60"))
    };
    let racers: Vec<_> = (0..6).map(take).collect();
    let mut got = Vec::new();
    for racer in racers {
        let output = racer.end();
        match output.status.code() {
            Some(0) => got.push(crate::world::text(&output.stdout).trim().to_owned()),
            other => assert_eq!(other, Some(75), "{output:?}"),
        }
    }
    got.sort();
    assert_eq!(got, ["a", "b", "c", "d"]);
}
