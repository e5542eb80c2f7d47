//! A board under version control that git takes back.

use std::fs;
use std::process::{Command, Output};

use crate::place::{Place, judge};
use crate::world::{code, json, text};

fn git_in(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new("git");
    place.world.prepare(&mut command);
    command.current_dir(place.root());
    command.args(["-c", "user.name=a", "-c", "user.email=a"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn what_git_takes_back_stays_taken_back() {
    let mut place = Place::new();
    place.stays_broken();
    let git = |arguments: &[&str]| {
        let output = git_in(&place, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    place.add(&["a"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    git(&["switch", "-qc", "feature"]);
    place.done(&["done", "a"]);
    place.add(&["b"]);
    assert_eq!(
        pending(&place),
        [] as [String; 0],
        "nothing is left to be made again"
    );
    git(&["add", "."]);
    git(&["commit", "-qm", "two"]);
    git(&["switch", "-q", "main"]);
    assert_eq!(place.issue("a")["state"], "open");
    let ids = |place: &Place| {
        let listed = place.json(&["ls"]);
        listed["issues"].as_array().unwrap().len()
    };
    assert_eq!(ids(&place), 1);
    // The other branch is unchanged, and work goes on in both.
    git(&["switch", "-q", "feature"]);
    assert_eq!(
        (place.issue("a")["state"].as_str(), ids(&place)),
        (Some("done"), 2)
    );
    judge(&place.root());
    git(&["switch", "-q", "main"]);
    place.done(&["note", "a", "x"]);
    assert_eq!(place.done(&["next", "--claim"]), "a");
    judge(&place.root());
}

/// Returns the changes whose files are not synced yet.
fn pending(place: &Place) -> Vec<String> {
    let names = std::fs::read_dir(place.path(".pending")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains('-')).collect()
}

#[test]
fn an_index_that_a_merge_left_in_conflict_is_named_and_both_sides_are_put_together() {
    let mut place = Place::new();
    place.stays_broken();
    let git = |arguments: &[&str]| git_in(&place, arguments);
    let commit = |message: &str| {
        assert!(git(&["add", "."]).status.success());
        assert!(git(&["commit", "-qm", message]).status.success());
    };
    assert!(git(&["init", "-q", "-b", "main"]).status.success());
    place.add(&["a", "b"]);
    commit("one");
    assert!(git(&["switch", "-qc", "feature"]).status.success());
    place.add(&["theirs"]);
    place.done(&["delete", "b"]);
    commit("two");
    assert!(git(&["switch", "-q", "main"]).status.success());
    place.add(&["ours"]);
    commit("three");
    assert!(!git(&["merge", "-q", "feature"]).status.success());
    for arguments in [&["ls"][..], &["add", "x"], &["next"]] {
        let said = place.refused(65, arguments);
        assert!(
            said.contains("index.json: it holds conflict markers of git, from line"),
            "{said}"
        );
        let root = place.root().display().to_string();
        let remedy = format!("tenure board verify --repair --dir {root}");
        assert!(said.contains(&remedy), "{said}");
    }
    let found = place.call(&["verify", "--json"]);
    assert_eq!(code(&found), 65, "{found:?}");
    let found = json(&found.stdout);
    assert_eq!(found["findings"][0]["file"], "index.json", "{found}");
    assert_eq!(
        found["findings"][0]["repair"],
        "--repair puts both sides together"
    );
    // The log is in conflict, too; only a person can solve that.
    let log = place.path("events.jsonl");
    let repaired = place.call(&["verify", "--repair"]);
    let said = text(&repaired.stdout);
    assert_eq!(code(&repaired), 65, "{repaired:?}");
    assert!(
        said.contains("both sides were put together") && said.contains("events.jsonl"),
        "{said}"
    );
    let lines = fs::read_to_string(&log).unwrap();
    let lines = lines.lines().filter(|line| line.starts_with('{'));
    fs::write(
        &log,
        lines.map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    assert!(place.call(&["verify"]).status.success());
    judge(&place.root());
    let listed = place.json(&["ls"]);
    let listed = listed["issues"].as_array().unwrap().iter();
    let mut listed: Vec<&str> = listed.map(|issue| issue["id"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(
        listed,
        ["a", "ours", "theirs"],
        "what one side deleted stays deleted"
    );
    place.refused(76, &["add", "b", "--id", "b"]);
}
