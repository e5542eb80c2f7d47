//! Requests that are made again, under a key of the caller.

use std::time::{Duration, Instant};

use tenure::{Lease, LeaseState, Mode};

use super::case::{Case, case};
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::Kind;
use crate::agent::{Agent, LONG_WAIT, Pending};
use crate::stage::{Stage, TTL_LONG, TTL_SHORT, throughout};

pub(super) const CASES: &[Case] = &[
    case!(asking_again_gets_the_same_leases, Leases),
    case!(asking_again_gets_the_lease_as_it_is_now, Leases),
    case!(another_request_under_the_same_key_is_a_conflict, Leases),
    case!(a_key_whose_lease_is_over_is_a_conflict, Leases),
    case!(slow a_key_whose_lease_was_taken_over_is_a_conflict, Leases),
    case!(slow asking_again_after_its_time_renews_a_lease_that_nobody_took, Leases),
    case!(a_key_whose_lease_is_being_broken_is_a_conflict, Leases),
    case!(every_owner_has_keys_of_its_own, Leases),
    case!(two_that_ask_at_once_get_one_lease, Leases),
    case!(
        who_asks_again_while_the_first_still_waits_gets_its_lease,
        Leases
    ),
    case!(who_asks_again_waits_no_longer_than_it_wants_to, Leases),
    case!(a_request_that_failed_leaves_its_key_free, Leases),
    case!(a_request_that_was_dropped_leaves_its_key_free, Leases),
    case!(a_killed_asker_leaves_its_key_free, Leases),
    case!(without_a_key_every_request_is_a_new_one, Leases),
];

const A: &[(&str, Mode)] = &[("a", Mode::Write)];
const SHORT: Duration = Duration::from_millis(50);

fn ask(agent: &mut Agent, items: &[(&str, Mode)], key: &str) -> Pending {
    agent.want_keyed(items, TTL_LONG, Some(key), LONG_WAIT)
}

fn get(agent: &mut Agent, items: &[(&str, Mode)], key: &str) -> Vec<Lease> {
    let asked = ask(agent, items, key);
    agent.locked(asked)
}

fn conflict(agent: &mut Agent, asked: Pending, key: &str) {
    let failure = agent.failed(asked);
    assert_eq!(failure.kind, Kind::Conflict, "{failure:?}");
    assert!(failure.message.contains(key), "{failure:?}");
}

fn release_all(agent: &mut Agent, leases: &[Lease]) {
    for lease in leases {
        agent.release_lease(&lease.lease);
    }
}

fn asking_again_gets_the_same_leases(stage: &Stage<'_>) {
    let sets: [&[(&str, Mode)]; 3] = [
        A,
        &[("a", Mode::Read), ("b", Mode::Upgradeable)],
        &[
            ("map:m", Mode::Write),
            ("a", Mode::Write),
            ("b", Mode::Read),
        ],
    ];
    for (number, set) in sets.into_iter().enumerate() {
        let key = format!("nightly build {number}");
        let [mut ana, mut again] = stage.agents(stage.apart(), ["ana", "ana"]);
        let leases = get(&mut ana, set, &key);
        assert_eq!(leases.len(), set.len());
        assert_eq!(get(&mut ana, set, &key), leases, "by the same process");
        assert_eq!(get(&mut again, set, &key), leases, "by another");
        // The order of a set does not make it another set.
        let turned: Vec<_> = set.iter().rev().copied().collect();
        assert_eq!(get(&mut again, &turned, &key), leases);
        ana.crash();
        assert_eq!(get(&mut again, set, &key), leases, "after a crash");
        assert_eq!(stage.held().len(), set.len());
        release_all(&mut again, &leases);
    }
}

fn asking_again_gets_the_lease_as_it_is_now(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let upgradeable = [("a", Mode::Upgradeable)];
    let lease = get(&mut ana, &upgradeable, "k").remove(0);
    let renewed = ana.change(LeaseCommand::Renew {
        lease: lease.lease.clone(),
        ttl: Some(TTL_LONG * 2),
        by: None,
    });
    assert_eq!(get(&mut ana, &upgradeable, "k"), [renewed]);
    let token = ana.upgrade_lease(&lease.lease);
    let upgraded = get(&mut ana, &upgradeable, "k").remove(0);
    assert_eq!((&upgraded.lease, upgraded.token), (&lease.lease, token));
    ana.release_lease(&lease.lease);
}

fn another_request_under_the_same_key_is_a_conflict(stage: &Stage<'_>) {
    let [mut ana, mut again] = stage.agents(stage.apart(), ["ana", "ana"]);
    let leases = get(&mut ana, A, "k");
    let others: [&[(&str, Mode)]; 4] = [
        &[("b", Mode::Write)],
        &[("a", Mode::Read)],
        &[("a", Mode::Write), ("b", Mode::Write)],
        &[("map:a", Mode::Write)],
    ];
    for other in others {
        for agent in [&mut ana, &mut again] {
            let asked = ask(agent, other, "k");
            conflict(agent, asked, "k");
        }
    }
    let asked = ana.want_keyed(A, TTL_LONG * 2, Some("k"), LONG_WAIT);
    conflict(&mut ana, asked, "k");
    assert_eq!(stage.held(), leases);
    // The length of the wait is no part of the request.
    let asked = again.want_keyed(A, TTL_LONG, Some("k"), Duration::ZERO);
    assert_eq!(again.locked(asked), leases);
    release_all(&mut ana, &leases);
}

fn a_key_whose_lease_is_over_is_a_conflict(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let set = [("a", Mode::Write), ("b", Mode::Write)];
    let leases = get(&mut ana, &set, "k");
    // Half of the set is not the set that was asked for.
    ana.release_lease(&leases[0].lease);
    let asked = ask(&mut ana, &set, "k");
    conflict(&mut ana, asked, "k");
    ana.release_lease(&leases[1].lease);
    for items in [&set[..], A] {
        let asked = ask(&mut ana, items, "k");
        conflict(&mut ana, asked, "k");
    }
    assert_eq!(stage.held(), []);
    bo.take("a", Mode::Write);
}

fn a_key_whose_lease_was_taken_over_is_a_conflict(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let ask = |ana: &mut Agent| ana.want_keyed(A, TTL_SHORT, Some("k"), LONG_WAIT);
    let asked = ask(&mut ana);
    ana.locked(asked);
    let wanted = bo.want("a", Mode::Write);
    bo.granted(wanted);
    let asked = ask(&mut ana);
    conflict(&mut ana, asked, "k");
    bo.release("a");
    let asked = ask(&mut ana);
    conflict(&mut ana, asked, "k");
}

fn asking_again_after_its_time_renews_a_lease_that_nobody_took(stage: &Stage<'_>) {
    // This is long enough that the request for it comes before it is over again.
    const TTL: Duration = Duration::from_secs(3);
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let set = [("a", Mode::Write), ("b", Mode::Read)];
    let asked = ana.want_keyed(&set, TTL, Some("k"), LONG_WAIT);
    let leases = ana.locked(asked);
    for lease in &leases {
        stage.until_expired(&lease.lease);
    }
    let before = Instant::now();
    let asked = ana.want_keyed(&set, TTL, Some("k"), LONG_WAIT);
    let mut renewed = ana.locked(asked);
    for (lease, renewed) in leases.iter().zip(&renewed) {
        assert_eq!(renewed.state, LeaseState::Held, "{renewed:?}");
        assert!(renewed.expires_at > lease.expires_at, "{renewed:?}");
        let same = (&renewed.lease, renewed.token);
        assert_eq!(same, (&lease.lease, lease.token));
    }
    assert_eq!(leases.len(), renewed.len());
    if bo.try_take("a", Mode::Write).is_some() {
        assert!(before.elapsed() >= TTL, "two hold it");
        bo.release("a");
        renewed.remove(0);
    }
    release_all(&mut ana, &renewed);
}

fn a_key_whose_lease_is_being_broken_is_a_conflict(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = get(&mut ana, A, "k").remove(0);
    bo.break_lease(&lease.lease, "it is needed");
    let asked = ask(&mut ana, A, "k");
    conflict(&mut ana, asked, "k");
    ana.release_lease(&lease.lease);
}

fn every_owner_has_keys_of_its_own(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let hers = get(&mut ana, A, "k");
    let his = get(&mut bo, &[("b", Mode::Write)], "k");
    assert_eq!(stage.shown(), ["ana name:a write", "bo name:b write"]);
    // An equal request of another owner is another request.
    let asked = cy.want_keyed(A, TTL_LONG, Some("k"), SHORT);
    assert_eq!(cy.failed(asked).kind, Kind::Timeout);
    assert_eq!(get(&mut ana, A, "k"), hers);
    release_all(&mut ana, &hers);
    release_all(&mut bo, &his);
}

fn two_that_ask_at_once_get_one_lease(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "ana", "ana"]);
    for round in 0..20 {
        let key = format!("round {round}");
        let asked: Vec<_> = agents.iter_mut().map(|ana| ask(ana, A, &key)).collect();
        let mut got: Vec<_> = agents
            .iter_mut()
            .zip(asked)
            .map(|(ana, asked)| ana.locked(asked).remove(0).lease)
            .collect();
        got.dedup();
        assert_eq!(got.len(), 1, "{round}: {got:?}");
        assert_eq!(stage.held().len(), 1);
        agents[round % 3].release_lease(&got[0]);
    }
}

fn who_asks_again_while_the_first_still_waits_gets_its_lease(stage: &Stage<'_>) {
    let [mut ana, mut again, mut bo] = stage.agents(stage.apart(), ["ana", "ana", "bo"]);
    bo.take("a", Mode::Write);
    let first = ask(&mut ana, A, "k");
    stage.until_waiting("a", 1);
    let second = ask(&mut again, A, "k");
    // The second request joins no line of its own, however often it looks.
    throughout(SHORT * 4, || {
        assert_eq!(stage.waiting("a"), 1);
        assert!(again.answered(second).is_none());
    });
    bo.release("a");
    let leases = ana.locked(first);
    assert_eq!(again.locked(second), leases);
    assert_eq!(stage.held(), leases);
    release_all(&mut again, &leases);
}

fn who_asks_again_waits_no_longer_than_it_wants_to(stage: &Stage<'_>) {
    let [mut ana, mut again, mut bo] = stage.agents(stage.apart(), ["ana", "ana", "bo"]);
    bo.take("a", Mode::Write);
    let first = ask(&mut ana, A, "k");
    stage.until_waiting("a", 1);
    for wait in [Duration::ZERO, SHORT] {
        let second = again.want_keyed(A, TTL_LONG, Some("k"), wait);
        let failure = again.failed(second);
        let busy = matches!(failure.kind, Kind::Busy | Kind::Timeout);
        assert!(busy, "{failure:?}");
    }
    // The first request is not disturbed by that.
    assert_eq!(stage.waiting("a"), 1);
    bo.release("a");
    let leases = ana.locked(first);
    assert_eq!(get(&mut again, A, "k"), leases);
    release_all(&mut ana, &leases);
}

fn a_request_that_failed_leaves_its_key_free(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    bo.take("a", Mode::Write);
    for wait in [Duration::ZERO, SHORT] {
        let asked = ana.want_keyed(A, TTL_LONG, Some("k"), wait);
        let failure = ana.failed(asked);
        assert!(
            matches!(failure.kind, Kind::Busy | Kind::Timeout),
            "{failure:?}"
        );
    }
    // The request got nothing, so the key may stand for another one.
    let leases = get(&mut ana, &[("b", Mode::Write)], "k");
    release_all(&mut ana, &leases);
}

fn a_request_that_was_dropped_leaves_its_key_free(stage: &Stage<'_>) {
    let [mut ana, mut again, mut bo] = stage.agents(stage.apart(), ["ana", "ana", "bo"]);
    bo.take("a", Mode::Write);
    let asked = ask(&mut ana, A, "k");
    stage.until_waiting("a", 1);
    assert!(ana.cancel(asked));
    let leases = get(&mut again, &[("b", Mode::Write)], "k");
    release_all(&mut again, &leases);
}

fn a_killed_asker_leaves_its_key_free(stage: &Stage<'_>) {
    let [mut ana, mut again, mut bo] = stage.agents(stage.apart(), ["ana", "ana", "bo"]);
    bo.take("a", Mode::Write);
    let _never = ask(&mut ana, A, "k");
    stage.until_waiting("a", 1);
    let second = ask(&mut again, A, "k");
    ana.crash();
    // The second asker takes the first one's place; nothing is left of the first.
    bo.release("a");
    let leases = again.locked(second);
    assert_eq!(leases[0].session, *again.session());
    release_all(&mut again, &leases);
}

fn without_a_key_every_request_is_a_new_one(stage: &Stage<'_>) {
    let [mut ana, mut again] = stage.agents(stage.apart(), ["ana", "ana"]);
    let first = ana.lock("a", Mode::Read, TTL_LONG);
    let second = again.lock("a", Mode::Read, TTL_LONG);
    assert_ne!(first.lease, second.lease);
    release_all(&mut ana, &[first, second]);
}
