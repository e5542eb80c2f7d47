//! Every row of the table, and the clocks.

use std::collections::BTreeMap;

use super::*;
use crate::issue::tests::issue;

const TTL: Duration = Duration::from_secs(60);

fn owner(name: &str) -> Owner {
    Owner::parse(name).unwrap()
}

/// Returns a moment this many seconds after the first claim, in the same boot.
fn at(seconds: i64) -> Moment<'static> {
    Moment {
        now: Timestamp::from_millis(1_700_000_000_000 + seconds * 1000),
        boot_ms: u64::try_from(1_000_000 + seconds * 1000).unwrap(),
        boot_id: "boot-1",
    }
}

fn asked(
    issue: &Issue,
    who: &str,
    request: ClaimRequest,
    moment: Moment<'_>,
) -> Result<Issue, IssueRefusal> {
    decide(issue, Waits::default, &owner(who), request, moment)
}

/// Returns an issue that Ana claimed for a minute.
fn claimed() -> Issue {
    asked(&issue("a"), "ana", ClaimRequest::Claim(TTL), at(0)).unwrap()
}

#[test]
fn every_request_in_every_state_is_decided_as_the_table_says() {
    use ClaimRequest::{Claim, Done, Release, Renew};
    let free = issue("a");
    let mut done = issue("a");
    done.state = IssueState::Done;
    let token = claimed().last_token;
    for (issue, who, request, seconds, allowed) in [
        (&done, "ana", Claim(TTL), 0, false),
        (&done, "ana", Renew(None, TTL), 0, false),
        (&done, "ana", Release(None), 0, false),
        (&done, "ana", Done(None), 0, false),
        (&free, "ana", Claim(TTL), 0, true),
        (&free, "ana", Renew(None, TTL), 0, false),
        (&free, "ana", Release(None), 0, false),
        (&free, "ana", Done(None), 0, true),
        (&claimed(), "ana", Claim(TTL), 59, false),
        (&claimed(), "ana", Renew(Some(token), TTL), 59, true),
        (&claimed(), "ana", Release(None), 59, true),
        (&claimed(), "ana", Done(Some(token)), 59, true),
        (&claimed(), "ana", Done(Some(token - 1)), 59, false),
        (&claimed(), "ana", Renew(Some(token + 1), TTL), 59, false),
        (&claimed(), "ana", Claim(TTL), 60, true),
        (&claimed(), "ana", Renew(Some(token), TTL), 60, true),
        (&claimed(), "ana", Release(None), 60, true),
        (&claimed(), "ana", Done(Some(token)), 60, true),
        (&claimed(), "bo", Claim(TTL), 59, false),
        (&claimed(), "bo", Renew(None, TTL), 59, false),
        (&claimed(), "bo", Release(None), 59, false),
        (&claimed(), "bo", Done(None), 59, false),
        (&claimed(), "bo", Claim(TTL), 60, true),
        (&claimed(), "bo", Renew(None, TTL), 60, false),
        (&claimed(), "bo", Release(None), 60, false),
        (&claimed(), "bo", Done(None), 60, true),
    ] {
        let decided = asked(issue, who, request, at(seconds));
        assert_eq!(
            decided.is_ok(),
            allowed,
            "{who} {request:?} at {seconds}: {decided:?}"
        );
    }
}

#[test]
fn what_waits_for_others_is_neither_claimed_nor_done() {
    let mut one = issue("a");
    one.depends_on = vec!["b".parse().unwrap(), "c".parse().unwrap()];
    one.gates = BTreeMap::from([("review".into(), GateState::Failed)]);
    let waits = || Waits::of(&one, |id| id.as_str() == "c");
    assert_eq!(
        waits().to_string(),
        "it waits for b and for the gate review (failed)"
    );
    for request in [ClaimRequest::Claim(TTL), ClaimRequest::Done(None)] {
        let decided = decide(&one, waits, &owner("ana"), request, at(0));
        assert_eq!(decided.unwrap_err(), IssueRefusal::Blocked(waits()));
    }
    let mut ready = one.clone();
    ready.gates.insert("review".into(), GateState::Passed);
    assert!(Waits::of(&ready, |_| true).is_nothing());
}

#[test]
fn a_token_never_goes_back_and_a_renewal_keeps_it() {
    let first = claimed();
    assert_eq!(first.last_token, 1_700_000_000_000);
    let renewed = asked(&first, "ana", ClaimRequest::Renew(None, TTL), at(30)).unwrap();
    let claim = renewed.claim.as_ref().unwrap();
    assert_eq!(
        (claim.token, claim.acquired_at),
        (first.last_token, at(0).now)
    );
    assert_eq!(claim.expires_at, at(90).now);
    let released = asked(&renewed, "ana", ClaimRequest::Release(None), at(31)).unwrap();
    assert_eq!(released.claim, None);
    // The clock was set back to 1970.
    let early = Moment {
        now: Timestamp::from_millis(1),
        ..at(40)
    };
    let again = asked(&released, "bo", ClaimRequest::Claim(TTL), early).unwrap();
    assert_eq!(again.last_token, first.last_token + 1);
}

#[test]
fn the_time_since_boot_decides_and_after_a_reboot_the_clock_on_the_wall() {
    let claim = claimed().claim.unwrap();
    let day = 24 * 3600;
    let wall = |seconds: i64| Timestamp::from_millis(1_700_000_000_000 + seconds * 1000);
    // In the same boot the clock on the wall does not count.
    for now in [wall(-day), wall(0), wall(30 * day)] {
        assert!(!is_over(&claim, Moment { now, ..at(59) }));
        assert!(is_over(&claim, Moment { now, ..at(60) }));
    }
    let after_reboot = |now| Moment {
        now,
        boot_ms: 5,
        boot_id: "boot-2",
    };
    assert!(!is_over(&claim, after_reboot(wall(59))));
    assert!(is_over(&claim, after_reboot(wall(60))));
    // A clock that is two days behind does not make the claim last for two days.
    assert!(is_over(&claim, after_reboot(wall(-2 * day))));
}

#[test]
fn a_circle_is_found_and_named() {
    let graph = BTreeMap::from([
        ("a", vec!["b"]),
        ("b", vec!["c", "d"]),
        ("c", vec![]),
        ("d", vec!["e"]),
    ]);
    let depends_on = |id: &IssueId| {
        let on = graph.get(id.as_str()).into_iter().flatten();
        Ok(on.map(|id| id.parse().unwrap()).collect())
    };
    let find = |id: &str, on: &str| {
        let circle = cycle(&id.parse().unwrap(), &on.parse().unwrap(), depends_on).unwrap();
        circle.map(|circle| circle.iter().map(IssueId::to_string).collect::<Vec<_>>())
    };
    assert_eq!(find("e", "a").unwrap(), ["e", "a", "b", "d", "e"]);
    assert_eq!(find("a", "a").unwrap(), ["a", "a"]);
    assert_eq!(find("a", "e"), None);
    assert_eq!(find("x", "a"), None);
}
