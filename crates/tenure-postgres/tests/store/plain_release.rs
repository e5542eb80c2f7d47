//! `tenure.release` in the schema decides plain cases without `decide`. These tests send every
//! small state through both.
//!
//! A small state has one or two holders and at most two waiters, in every combination of modes,
//! states, capacities, deadlines and presence. Each is a resource of its own, so one statement
//! releases in all of them.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use tenure_core::decide::{
    Ask, Bound, Decision, Holder, HolderState, Life, Millis, OFFER_MS, Outcome, State, Waiter,
    Want, decide,
};
use tenure_core::{LeaseId, Mode, SessionId};

use crate::scene::Scene;

/// The moment of a decision. A time that is over ended an hour ago; any other lasts another hour.
const NOW: Millis = 100 * HOUR;
const HOUR: Millis = 3_600_000;

const MODES: [Mode; 3] = [Mode::Read, Mode::Upgradeable, Mode::Write];

fn id(name: &str) -> LeaseId {
    LeaseId::parse(name).unwrap()
}

fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

fn holder(name: &str, mode: Mode, state: HolderState, expires: Millis) -> Holder {
    let offered = matches!(state, HolderState::Offered { .. });
    let bound = Bound::Lease {
        expires,
        stale: expires,
        claimed: false,
    };
    Holder {
        lease: id(name),
        session: session(name),
        mode,
        upgraded: false,
        state,
        binding: if offered { Bound::Session } else { bound },
        life: Life::Alive,
    }
}

/// Returns every holder of one lease.
fn holders() -> Vec<Holder> {
    let (over, later) = (NOW - HOUR, NOW + HOUR);
    let states = [
        (HolderState::Held, later),
        (HolderState::Held, over),
        (HolderState::Offered { until: later }, later),
        (HolderState::Offered { until: over }, later),
        (HolderState::Revoking { until: later }, later),
        (HolderState::Revoking { until: over }, later),
    ];
    let modes = MODES.into_iter();
    let all =
        modes.flat_map(|mode| states.map(|(state, expires)| holder("held", mode, state, expires)));
    all.collect()
}

/// Returns a waiter. A waiter for an upgrade holds the lease.
fn waiter(name: &str, want: Want, deadline: Millis, life: Life) -> Option<Waiter> {
    let name = if want == Want::Upgrade { "held" } else { name };
    Some(Waiter {
        lease: id(name),
        session: session(name),
        want,
        deadline,
        life,
    })
}

/// Returns every first waiter, and `None`.
fn first_waiters() -> Vec<Option<Waiter>> {
    let mut wants = vec![Want::Upgrade];
    for mode in MODES {
        let capacities = [None, Some(1), Some(2)];
        wants.extend(capacities.map(|capacity| Want::Lease { mode, capacity }));
    }
    let mut all = vec![None];
    for want in wants {
        for deadline in [NOW - HOUR, NOW + HOUR] {
            let lives = [Life::Alive, Life::Dead];
            all.extend(lives.map(|life| waiter("first", want, deadline, life)));
        }
    }
    all
}

/// Returns `None`, and second waiters that could be granted something beside or instead of the
/// first.
fn second_waiters() -> Vec<Option<Waiter>> {
    let lease = |mode| Want::Lease {
        mode,
        capacity: None,
    };
    let later = NOW + HOUR;
    vec![
        None,
        waiter("second", Want::Upgrade, later, Life::Alive),
        waiter("second", lease(Mode::Read), later, Life::Alive),
        waiter("second", lease(Mode::Write), later, Life::Alive),
        waiter("second", lease(Mode::Write), later, Life::Dead),
    ]
}

fn states() -> Vec<State> {
    let mut states = Vec::new();
    let beside = holder("beside", Mode::Read, HolderState::Held, NOW + HOUR);
    for held in holders() {
        for beside in [None, Some(&beside)] {
            for first in first_waiters() {
                for second in second_waiters() {
                    let upgrades = |waiter: &Option<Waiter>| {
                        waiter
                            .as_ref()
                            .is_some_and(|waiter| waiter.want == Want::Upgrade)
                    };
                    if first.is_none() && second.is_some() || upgrades(&first) && upgrades(&second)
                    {
                        continue;
                    }
                    let holders = [Some(&held), beside].into_iter().flatten();
                    states.push(State {
                        holders: holders.cloned().collect(),
                        waiters: [first.clone(), second].into_iter().flatten().collect(),
                    });
                }
            }
        }
    }
    states
}

/// Returns the column `alone` for a state, as the schema describes it.
fn alone(state: &State) -> Option<String> {
    match (&state.holders[..], state.waiters.is_empty()) {
        _ if state.waiting_upgrade().is_some() => None,
        ([one], true) if one.state == HolderState::Held => Some(one.lease.to_string()),
        ([one], false) if one.state == HolderState::Held => Some(format!("{}+", one.lease)),
        _ => None,
    }
}

/// Returns a moment in SQL, as far from the server's clock as the moment is from `NOW`.
fn moment(at: Millis) -> String {
    let left = at.cast_signed() - NOW.cast_signed();
    format!("clock_timestamp() + {left} * interval '1 millisecond'")
}

/// Returns the statements that write a state as rows of the resource with this number.
fn rows(number: usize, state: &State) -> String {
    let mut sql = String::new();
    let named = alone(state).map(|text| text.replacen("held", &format!("held-{number}"), 1));
    let named = named.map_or("NULL".into(), |text| format!("'{text}'"));
    let _ = write!(
        sql,
        "INSERT INTO tenure.resources VALUES ('name:{number}', 7, {named});"
    );
    for holder in &state.holders {
        let (word, until) = match holder.state {
            HolderState::Held => ("held", "NULL".into()),
            HolderState::Offered { until } => ("offered", moment(until)),
            HolderState::Revoking { until } => ("revoking", moment(until)),
        };
        let expires = match holder.binding {
            Bound::Session => "NULL".into(),
            Bound::Lease { expires, .. } => moment(expires),
        };
        let _ = write!(
            sql,
            "INSERT INTO tenure.dal_locks (lock_id, owner, lease_expires, heartbeat_ts, resource, mode, session, \
             process, token, acquired_at, state, until, ttl_ms, pid, host, command) VALUES ('{lease}-{number}', 'o', \
             {expires}, clock_timestamp() - interval '1 hour', 'name:{number}', '{mode}', '{lease}-{number}', 'alive', 7, \
             clock_timestamp(), '{word}', {until}, 30000, 1, 'h', 'c');",
            lease = holder.lease,
            mode = holder.mode.as_str(),
        );
    }
    for waiter in &state.waiters {
        let (want, capacity) = match waiter.want {
            Want::Upgrade => ("upgrade", None),
            Want::Lease { capacity, .. } => ("lease", capacity),
        };
        let process = if waiter.life == Life::Alive {
            "alive"
        } else {
            "dead"
        };
        let _ = write!(
            sql,
            "INSERT INTO tenure.waiters (lock_id, resource, want, mode, capacity, session, holder_session, process, \
             owner, since, deadline, ttl_ms, pid, host, command) VALUES ('{lease}-{number}', 'name:{number}', '{want}', \
             '{mode}', {capacity}, '{lease}-{number}', '{lease}-{number}', '{process}', 'o', clock_timestamp(), \
             {deadline}, 30000, 1, 'h', 'c');",
            lease = waiter.lease,
            mode = waiter.want.mode().as_str(),
            capacity = capacity.map_or("NULL".into(), |capacity| capacity.to_string()),
            deadline = moment(waiter.deadline),
        );
    }
    sql
}

/// Returns the visible part of a state: each holder with its mode and state, and each waiter that
/// can still be granted something.
fn shown(state: &State) -> BTreeMap<String, HashSet<String>> {
    let holders = state.holders.iter().map(|holder| {
        let state = match holder.state {
            HolderState::Held => "held",
            HolderState::Offered { .. } => "offered",
            HolderState::Revoking { .. } => "revoking",
        };
        format!("{} {} {state}", holder.lease, holder.mode)
    });
    // The shortcut leaves waiters in line that wait in vain; the next step removes them.
    let waiters = state.waiters.iter();
    let waiters = waiters.filter(|waiter| waiter.life == Life::Alive && waiter.deadline > NOW);
    BTreeMap::from([
        ("holders".into(), holders.collect()),
        (
            "waiters".into(),
            waiters.map(|waiter| waiter.lease.to_string()).collect(),
        ),
    ])
}

/// Returns the visible part of the rows of all resources, by their number.
fn shown_rows(scene: &Scene) -> BTreeMap<usize, BTreeMap<String, HashSet<String>>> {
    const ROWS: &str = "SELECT resource || '|holders|' || lock_id || ' ' || mode || ' ' || state FROM tenure.dal_locks \
        UNION ALL SELECT resource || '|waiters|' || lock_id FROM tenure.waiters \
        WHERE process = 'alive' AND deadline > clock_timestamp()";
    let mut all: BTreeMap<usize, BTreeMap<String, HashSet<String>>> = BTreeMap::new();
    for line in scene.database.psql(ROWS).lines() {
        let mut parts = line.split('|');
        let number = parts.next().unwrap().trim_start_matches("name:");
        let (part, row) = (parts.next().unwrap(), parts.next().unwrap());
        let row = row.replacen(&format!("-{number}"), "", 1);
        let entry = all.entry(number.parse().unwrap()).or_default();
        entry.entry(part.into()).or_default().insert(row);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_in_sql_does_what_decide_does_in_every_small_state() {
    let scene = Scene::new().await;
    let states = states();
    let mut sql = String::from(
        "INSERT INTO tenure.processes VALUES ('alive', clock_timestamp() + interval '10 minutes', 1, 'h');",
    );
    for (number, state) in states.iter().enumerate() {
        sql.push_str(&rows(number, state));
    }
    scene.database.psql(&format!("BEGIN; {sql} COMMIT"));
    let released = scene.database.psql(&format!(
        "SELECT resource || '|' || coalesce(tenure.release(replace(resource, 'name:', 'held-'), {OFFER_MS}), 'left') \
         FROM tenure.resources"
    ));
    let found = shown_rows(&scene);
    let empty = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in released.lines() {
        let (number, outcome) = line.trim_start_matches("name:").split_once('|').unwrap();
        let number: usize = number.parse().unwrap();
        let state = &states[number];
        let Decision {
            changes,
            outcome: decided,
        } = decide(state, &Ask::Release(id("held")), NOW);
        let mut after = state.clone();
        if outcome != "left" {
            changes.iter().for_each(|change| after.apply(change));
            assert_eq!(decided, Outcome::Done, "{outcome} {state:#?}");
        }
        let found = found.get(&number).unwrap_or(&empty);
        for part in ["holders", "waiters"] {
            let expected = &shown(&after)[part];
            let found = found.get(part).cloned().unwrap_or_default();
            assert_eq!(found, *expected, "{part}: {outcome} {state:#?}");
        }
        let outcome = ["ended", "passed on", "left"]
            .into_iter()
            .find(|word| *word == outcome);
        *counts.entry(outcome.unwrap()).or_default() += 1;
    }
    println!("{} states: {counts:?}", states.len());
    assert_eq!(counts.values().sum::<usize>(), states.len());
    assert_eq!(counts.len(), 3, "each outcome was met: {counts:?}");
}
