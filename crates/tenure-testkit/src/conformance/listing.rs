//! The list of holders and waiters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde_json::json;
use tenure::{Binding, Lease, LeaseState, Mode, Owner, Query, Timestamp};

use super::case::{Case, case};
use crate::agent::words::{Command, Notes};
use crate::agent::{Agent, LONG_WAIT, resource};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(nothing_is_listed_where_nothing_is_held),
    case!(every_field_of_a_holder_is_listed),
    case!(holders_in_all_processes_are_listed_by_each),
    case!(a_change_of_mode_is_listed),
    case!(what_is_released_is_no_longer_listed),
    case!(pages_cover_everything_exactly_once),
    case!(filters_by_prefix_owner_and_resource_apply_together),
    case!(looking_never_makes_a_lock_seem_busy),
    case!(who_waits_is_listed_or_said_to_be_unknown),
];

fn list(stage: &Stage<'_>, query: &Query) -> tenure::Listing {
    stage.block_on(stage.keeper().list(query)).unwrap()
}

fn nothing_is_listed_where_nothing_is_held(stage: &Stage<'_>) {
    let listing = list(stage, &Query::default());
    assert_eq!((listing.held, listing.next), (vec![], None));
    assert_eq!(listing.waiting_next, None);
    let holders = stage.block_on(stage.keeper().holders(&resource("a")));
    assert_eq!(holders.unwrap(), []);
}

fn every_field_of_a_holder_is_listed(stage: &Stage<'_>) {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana lee", "bo"]);
        for mode in Mode::ALL {
            let notes = Notes {
                purpose: Some(format!("to {mode} – \"quoted\"")),
                metadata: Some(json!({"n": 1, "nested": ["é", null]})),
                ..Notes::default()
            };
            let before = Timestamp::from(SystemTime::now());
            let wanted = ana.send(Command::Acquire {
                resource: resource("map:a/b"),
                mode,
                wait: LONG_WAIT,
                notes: notes.clone(),
            });
            let lease = ana.granted(wanted);
            let after = Timestamp::from(SystemTime::now());
            for listed in [stage.held(), bo.list(), ana.list()] {
                assert_eq!(listed.len(), 1, "{placement:?}");
                let Lease {
                    lease: id,
                    resource: what,
                    mode: how,
                    owner,
                    session,
                    token,
                    acquired_at,
                    expires_at,
                    heartbeat_at,
                    binding,
                    state,
                    pid,
                    host: machine,
                    command,
                    purpose,
                    metadata,
                    ..
                } = listed.into_iter().next().unwrap();
                assert_eq!((id, token), (lease.lease.clone(), lease.token));
                assert_eq!((what, how), (resource("map:a/b"), mode));
                assert_eq!((owner.as_str(), &session), ("ana lee", ana.session()));
                assert!(
                    before <= acquired_at && acquired_at <= after,
                    "{acquired_at}"
                );
                assert!(heartbeat_at >= acquired_at);
                assert_eq!(binding, stage.binding());
                // A lease has a time of its own, which ends after the holder was last seen.
                match binding {
                    Binding::Session => assert_eq!(expires_at, None),
                    Binding::Lease => assert!(expires_at > Some(heartbeat_at)),
                }
                assert_eq!(state, LeaseState::Held);
                assert_eq!((pid, &*machine), (ana.pid(), &*host));
                assert!(!command.is_empty());
                assert_eq!((&purpose, &metadata), (&notes.purpose, &notes.metadata));
            }
            ana.release("map:a/b");
        }
    }
}

fn holders_in_all_processes_are_listed_by_each(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let mut agents = stage.agents(*placement, ["ana", "bo", "cy", "di"]);
        let mut expected = Vec::new();
        for agent in &mut agents {
            let mode = if agent.owner() == "cy" {
                Mode::Upgradeable
            } else {
                Mode::Read
            };
            expected.push(agent.take("a", mode).lease);
        }
        expected.sort();
        let ids = |leases: Vec<Lease>| {
            let mut ids: Vec<_> = leases.into_iter().map(|lease| lease.lease).collect();
            ids.sort();
            ids
        };
        for agent in &mut agents {
            assert_eq!(ids(agent.list()), expected, "{placement:?}");
        }
        let holders = stage.block_on(stage.keeper().holders(&resource("a")));
        assert_eq!(ids(holders.unwrap()), expected);
    }
}

fn a_change_of_mode_is_listed(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let taken = ana.take("a", Mode::Upgradeable);
    let listed = |bo: &mut Agent| {
        let leases = bo.list();
        assert_eq!(leases.len(), 1);
        assert_eq!(leases[0].lease, taken.lease);
        leases[0].mode
    };
    assert_eq!(listed(&mut bo), Mode::Upgradeable);
    ana.try_upgrade("a").unwrap();
    assert_eq!(listed(&mut bo), Mode::Write);
    ana.downgrade("a");
    assert_eq!(listed(&mut bo), Mode::Upgradeable);
}

fn what_is_released_is_no_longer_listed(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        for mode in Mode::ALL {
            ana.take("a", mode);
            ana.release("a");
            assert_eq!(bo.list(), [], "{placement:?}: {mode}");
        }
    }
}

/// Makes many resources with one holder, and some with several.
fn crowd(stage: &Stage<'_>, agents: &mut [Agent]) -> Vec<Lease> {
    let [ana, bo, cy] = agents else {
        panic!("three are a crowd");
    };
    let mut all = Vec::new();
    for name in [
        "project:p",
        "map:a",
        "map:a/1",
        "map:a/10",
        "map:a/2",
        "map:b",
    ] {
        all.push(ana.take(name, Mode::Write));
    }
    let long = "x".repeat(900);
    for name in ["a", "b", &format!("{long}1"), &format!("{long}2")] {
        for agent in [&mut *ana, &mut *bo, &mut *cy] {
            all.push(agent.take(name, Mode::Read));
        }
    }
    all.push(bo.take("zeta:%FF", Mode::Upgradeable));
    assert_eq!(stage.held().len(), all.len());
    all
}

fn pages_cover_everything_exactly_once(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let mut all: Vec<_> = crowd(stage, &mut agents)
        .into_iter()
        .map(|l| l.lease)
        .collect();
    all.sort();
    for limit in [1, 2, 3, 5, all.len() - 1, all.len(), all.len() + 1] {
        let mut query = Query::default().with_limit(limit);
        let mut held = Vec::new();
        loop {
            let page = list(stage, &query);
            assert!(page.held.len() <= limit);
            assert!(!page.held.is_empty(), "an empty page of {limit}");
            held.extend(page.held);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let sorted = held.is_sorted_by(|a, b| a.resource.as_str() <= b.resource.as_str());
        assert!(sorted, "pages of {limit}");
        let mut seen: Vec<_> = held.into_iter().map(|lease| lease.lease).collect();
        seen.sort();
        assert_eq!(seen, all, "pages of {limit}");
    }
}

fn filters_by_prefix_owner_and_resource_apply_together(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let all = crowd(stage, &mut agents);
    let long = format!("name:{}", "x".repeat(900));
    let long_1 = format!("{long}1");
    let prefixes = [
        None,
        Some(""),
        Some("map:a"),
        Some("map:a/1"),
        Some("name:"),
        Some(&long),
        Some("none"),
    ];
    let resources = [
        None,
        Some("a"),
        Some("map:a/1"),
        Some(&*long_1),
        Some("zeta:%FF"),
        Some("none"),
    ];
    let mut matched = 0;
    for prefix in prefixes {
        for owner in [None, Some("ana"), Some("bo"), Some("nobody")] {
            for only in resources {
                let mut query = Query::default();
                query.resource = only.map(resource);
                query.prefix = prefix.map(str::to_owned);
                query.owner = owner.map(|owner| Owner::parse(owner).unwrap());
                let mut expected: Vec<_> = all
                    .iter()
                    .filter(|lease| prefix.is_none_or(|p| lease.resource.as_str().starts_with(p)))
                    .filter(|lease| owner.is_none_or(|owner| lease.owner.as_str() == owner))
                    .filter(|lease| only.is_none_or(|only| lease.resource == resource(only)))
                    .map(|lease| lease.lease.clone())
                    .collect();
                expected.sort();
                let listing = list(stage, &query);
                assert_eq!(listing.next, None);
                let mut seen: Vec<_> = listing.held.into_iter().map(|l| l.lease).collect();
                seen.sort();
                assert_eq!(seen, expected, "{query:?}");
                matched += usize::from(!seen.is_empty());
            }
        }
    }
    assert!(matched > 20, "{matched}");
}

fn looking_never_makes_a_lock_seem_busy(stage: &Stage<'_>) {
    let [mut ana, mut eye] = stage.agents(stage.apart(), ["ana", "eye"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = |mut looks: Box<dyn FnMut() + Send>| {
            let done = &done;
            scope.spawn(move || {
                let mut count = 0;
                while !done.load(Ordering::Relaxed) {
                    looks();
                    count += 1;
                }
                count
            })
        };
        let keeper = stage.keeper().clone();
        let runtime = stage.runtime().handle().clone();
        let here = look(Box::new(move || {
            runtime.block_on(keeper.list(&Query::default())).unwrap();
        }));
        let there = look(Box::new(move || drop(eye.list())));
        // A try that fails panics, so the looking is ended in both cases.
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..300 {
                ana.take("a", Mode::Upgradeable);
                ana.try_upgrade("a").expect("nobody else is there");
                ana.downgrade("a");
                ana.release("a");
                ana.take("a", Mode::Write);
                ana.release("a");
            }
        }));
        done.store(true, Ordering::Relaxed);
        let looks: [u32; 2] = [here.join().unwrap(), there.join().unwrap()];
        if let Err(panic) = tried {
            std::panic::resume_unwind(panic);
        }
        assert!(looks.iter().all(|looks| *looks > 0), "{looks:?}");
    });
}

fn who_waits_is_listed_or_said_to_be_unknown(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let held = ana.take("a", Mode::Write);
    let before = Timestamp::from(SystemTime::now());
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let behind = cy.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    let listing = list(stage, &Query::default());
    assert_eq!(listing.held.len(), 1);
    if stage.capabilities().lists_waiters {
        let waiting = listing.waiting.unwrap();
        let shown = |w: &tenure::Waiting| (w.owner.to_string(), w.mode, w.position);
        let shown: Vec<_> = waiting.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                ("bo".to_owned(), Mode::Write, 1),
                ("cy".to_owned(), Mode::Read, 2)
            ]
        );
        for waiter in &waiting {
            assert_eq!(waiter.resource, resource("a"));
            assert!(waiter.since >= before && waiter.deadline > Some(waiter.since));
            assert!(!waiter.reason.is_empty() && !waiter.blocked_by.is_empty());
        }
        assert_eq!(waiting[0].blocked_by, [held.lease]);
        assert!(waiting[1].blocked_by.contains(&waiting[0].waiter));
    } else {
        assert_eq!((listing.waiting, listing.waiting_next), (None, None));
    }
    ana.release("a");
    let lease = bo.granted(wanted);
    assert_eq!(lease.owner.as_str(), "bo");
    bo.release("a");
    cy.granted(behind);
}
