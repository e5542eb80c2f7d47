//! Every small state, every request: the invariants of the decision, proved by enumeration.
//!
//! From the empty state, every request of four sessions is tried in every state that can
//! be reached, at every moment that matters, until no new state appears. Deadlines are
//! either before or after each of two moments.

use std::collections::{HashMap, HashSet, VecDeque};

use super::*;

const SESSIONS: [&str; 4] = ["a", "b", "c", "d"];
/// Waiters give up at 10 or at 30; it is 0 or 20.
const DEADLINES: [Millis; 2] = [10, 30];
const MOMENTS: [Millis; 2] = [0, 20];

fn asks() -> Vec<Ask> {
    let mut asks = Vec::new();
    for name in SESSIONS {
        // One lease a session is enough, since a session holds a resource once.
        let lease = LeaseId::parse(name).unwrap();
        let session = SessionId::parse(name).unwrap();
        let waits = [
            Wait::No,
            Wait::Until(DEADLINES[0]),
            Wait::Until(DEADLINES[1]),
        ];
        for wait in waits {
            for mode in Mode::ALL {
                let (lease, session) = (lease.clone(), session.clone());
                asks.push(Ask::Acquire {
                    lease,
                    session,
                    mode,
                    wait,
                });
            }
            asks.push(Ask::Upgrade {
                lease: lease.clone(),
                wait,
            });
        }
        asks.push(Ask::Downgrade {
            lease: lease.clone(),
        });
        asks.push(Ask::Release {
            lease: lease.clone(),
        });
        asks.push(Ask::Withdraw { lease });
    }
    asks
}

/// Calls `check` with every reachable state, request and moment, and the decision on it.
/// Returns how many states and decisions there were.
fn explore(mut check: impl FnMut(&State, &Ask, Millis, &Decision, &State)) -> (usize, usize) {
    let asks = asks();
    let mut seen = HashSet::from([State::default()]);
    let mut todo = VecDeque::from([State::default()]);
    let mut decisions = 0;
    while let Some(state) = todo.pop_front() {
        for (ask, now) in asks.iter().flat_map(|ask| MOMENTS.map(|now| (ask, now))) {
            let decision = decide(&state, ask, now);
            let mut after = state.clone();
            for change in &decision.changes {
                after.apply(change);
            }
            check(&state, ask, now, &decision, &after);
            decisions += 1;
            if seen.insert(after.clone()) {
                todo.push_back(after);
            }
        }
    }
    (seen.len(), decisions)
}

fn in_line(state: &State, now: Millis) -> Vec<Waiter> {
    let alive = |waiter: &&Waiter| waiter.deadline > now;
    let mut line: Vec<Waiter> = state.waiters.iter().filter(alive).cloned().collect();
    line.sort_by_key(|waiter| waiter.want != Want::Upgrade);
    line
}

#[test]
fn no_two_holders_ever_conflict() {
    let (states, decisions) = explore(|_, ask, _, _, after| {
        for (i, one) in after.holders.iter().enumerate() {
            for other in &after.holders[i + 1..] {
                assert!(
                    !one.mode.conflicts_with(other.mode),
                    "{ask:?} led to {after:?}"
                );
                assert_ne!(one.lease, other.lease, "{ask:?} led to {after:?}");
            }
        }
    });
    println!("{states} states, {decisions} decisions");
    assert!(states > 1000, "the enumeration found only {states} states");
}

#[test]
fn nobody_who_could_be_granted_is_left_waiting() {
    explore(|_, ask, now, _, after| {
        let line = in_line(after, now);
        assert_eq!(
            line.len(),
            after.waiters.len(),
            "the late are still in line: {after:?}"
        );
        match line.first() {
            None => {}
            Some(first) if first.want == Want::Upgrade => {
                assert!(after.holders.len() > 1, "{ask:?} led to {after:?}");
            }
            Some(first) => {
                let Want::Lease(mode) = first.want else {
                    unreachable!()
                };
                let blocked = after.holders.iter().any(|h| h.mode.conflicts_with(mode));
                assert!(blocked, "{ask:?} led to {after:?}");
            }
        }
    });
}

#[test]
fn nobody_overtakes_who_came_earlier_and_still_waits() {
    explore(|before, ask, now, decision, after| {
        let waited = in_line(before, now);
        let still_waits = |waiter: &Waiter| after.waiters.contains(waiter);
        let Some(first_left) = waited.iter().position(still_waits) else {
            return;
        };
        for change in &decision.changes {
            let Change::Grant(holder) = change else {
                continue;
            };
            let place = waited.iter().position(|w| w.lease == holder.lease);
            assert!(
                place.is_some_and(|place| place < first_left),
                "{ask:?} in {before:?}"
            );
        }
    });
}

#[test]
fn whoever_ran_out_of_time_is_not_granted() {
    explore(|before, ask, now, decision, _| {
        for change in &decision.changes {
            let (Change::Grant(Holder { lease, .. }) | Change::SetMode { lease, .. }) = change
            else {
                continue;
            };
            let late = before.waiter(lease).is_some_and(|w| w.deadline <= now);
            let asked = matches!(ask, Ask::Acquire { lease: l, .. } | Ask::Upgrade { lease: l, .. }
                | Ask::Downgrade { lease: l } if l == lease);
            assert!(!late || asked, "{ask:?} at {now} in {before:?}");
        }
    });
}

#[test]
fn an_upgrade_needs_to_be_alone_and_keeps_new_readers_out() {
    explore(|_, ask, _, decision, after| {
        let write = |change: &Change| {
            matches!(
                change,
                Change::SetMode {
                    mode: Mode::Write,
                    ..
                }
            )
        };
        if decision.changes.iter().any(write) && !matches!(ask, Ask::Release { .. }) {
            assert_eq!(after.holders.len(), 1, "{ask:?} led to {after:?}");
        }
        if after.waiting_upgrade().is_some() && decision.outcome == Outcome::Granted {
            panic!("{ask:?} was granted past a waiting upgrade: {after:?}");
        }
    });
}

#[test]
fn a_withdrawn_or_refused_request_leaves_no_trace_of_itself() {
    explore(
        |before, ask, _, decision, after| match (ask, &decision.outcome) {
            (Ask::Withdraw { lease }, Outcome::Done) => {
                assert!(after.waiter(lease).is_none());
                assert_eq!(
                    after.holder(lease).map(|h| h.mode),
                    before.holder(lease).map(|h| h.mode)
                );
            }
            (Ask::Acquire { lease, session, .. }, Outcome::Busy) => {
                assert!(after.holder(lease).is_none() && after.waiter(lease).is_none());
                assert!(after.holders.iter().all(|h| h.session != *session));
            }
            _ => {}
        },
    );
}

#[test]
fn a_session_has_a_resource_once() {
    explore(|_, ask, _, _, after| {
        for session in SESSIONS {
            let holds = after
                .holders
                .iter()
                .filter(|h| h.session.as_str() == session)
                .count();
            let waits = after
                .waiters
                .iter()
                .filter(|w| w.session.as_str() == session);
            let waits: Vec<_> = waits.map(|waiter| waiter.want).collect();
            let fine = matches!(
                (holds, waits.as_slice()),
                (0 | 1, []) | (0, [Want::Lease(_)]) | (1, [Want::Upgrade])
            );
            assert!(fine, "{ask:?} led to {after:?}");
        }
    });
}

#[test]
fn every_row_of_the_table_occurs() {
    let mut rows: HashMap<String, usize> = HashMap::new();
    explore(|_, ask, _, decision, _| {
        let ask = match ask {
            Ask::Acquire { wait: Wait::No, .. } => "acquire, not waiting",
            Ask::Acquire { .. } => "acquire, waiting",
            Ask::Upgrade { wait: Wait::No, .. } => "upgrade, not waiting",
            Ask::Upgrade { .. } => "upgrade, waiting",
            Ask::Downgrade { .. } => "downgrade",
            Ask::Release { .. } => "release",
            Ask::Withdraw { .. } => "withdraw",
        };
        *rows
            .entry(format!("{ask}: {:?}", decision.outcome))
            .or_default() += 1;
    });
    let mut rows: Vec<_> = rows.into_keys().collect();
    rows.sort();
    let expected = [
        "acquire, not waiting: Busy",
        "acquire, not waiting: Granted",
        "acquire, not waiting: Refused(Reentry)",
        "acquire, waiting: Granted",
        "acquire, waiting: Queued",
        "acquire, waiting: Refused(Reentry)",
        "downgrade: Done",
        "downgrade: Refused(NeverUpgraded)",
        "downgrade: Refused(NotHeld)",
        "release: Done",
        "release: Refused(NotHeld)",
        "upgrade, not waiting: Busy",
        "upgrade, not waiting: Granted",
        "upgrade, not waiting: Refused(AlreadyWrite)",
        "upgrade, not waiting: Refused(NotHeld)",
        "upgrade, not waiting: Refused(NotUpgradeable)",
        "upgrade, not waiting: Refused(Reentry)",
        "upgrade, waiting: Granted",
        "upgrade, waiting: Queued",
        "upgrade, waiting: Refused(AlreadyWrite)",
        "upgrade, waiting: Refused(NotHeld)",
        "upgrade, waiting: Refused(NotUpgradeable)",
        "upgrade, waiting: Refused(Reentry)",
        "withdraw: Done",
        "withdraw: Refused(NotWaiting)",
    ];
    assert_eq!(rows, expected);
}
