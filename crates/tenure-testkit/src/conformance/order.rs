//! The order of resources, and sets.

use std::time::Duration;

use tenure::Mode;

use super::case::{Case, case};
use crate::agent::words::{Answer, Command, Failure, Kind};
use crate::agent::{Agent, LONG_WAIT, Pending, resource};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(asking_for_something_ordered_before_is_refused_and_names_both),
    case!(kinds_are_ordered_by_rank_and_ids_by_bytes),
    case!(what_is_awaited_counts_for_the_order),
    case!(upgrading_while_something_later_is_held_is_refused),
    case!(a_set_is_taken_in_order_whatever_order_it_is_given_in),
    case!(a_set_is_taken_whole_or_not_at_all),
    case!(of_a_resource_named_twice_the_strongest_mode_is_taken),
    case!(sets_that_overlap_never_block_each_other_for_good),
];

fn refused(answer: Answer) -> Failure {
    match answer {
        Answer::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn want_set(agent: &mut Agent, items: &[(&str, Mode)]) -> Pending {
    let items = items.iter().map(|(name, mode)| (resource(name), *mode));
    agent.send(Command::AcquireMany {
        items: items.collect(),
        wait: LONG_WAIT,
    })
}

fn asking_for_something_ordered_before_is_refused_and_names_both(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    ana.take("b", Mode::Read);
    let (a, b) = (resource("a"), resource("b"));
    // Whether it is free or not, and whether it is waited for or not.
    for held_by_other in [false, true] {
        if held_by_other {
            bo.take("a", Mode::Write);
        }
        for mode in Mode::ALL {
            let wanted = ana.want("a", mode);
            let tried = ana.send(Command::Try {
                resource: a.clone(),
                mode,
            });
            let set = want_set(&mut ana, &[("c", mode), ("a", mode)]);
            for asked in [wanted, tried, set] {
                let failure = ana.failed(asked);
                assert_eq!(failure.kind, Kind::Order, "{failure:?}");
                assert_eq!(failure.names, [a.clone(), b.clone()]);
                assert!(failure.message.contains("name:a") && failure.message.contains("name:b"));
            }
        }
    }
    assert_eq!(stage.shown(), ["ana name:b read", "bo name:a write"]);
    bo.release("a");
    ana.release("b");
    // With the later one released it is in order.
    ana.take("a", Mode::Write);
    ana.take("b", Mode::Write);
}

fn kinds_are_ordered_by_rank_and_ids_by_bytes(stage: &Stage<'_>) {
    let ordered = [
        "slot:z",
        "project:y",
        "map:B",
        "map:a/10",
        "map:a/2",
        "name:c",
        "events:a",
        "alpha:a",
    ];
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    for (index, later) in ordered.iter().enumerate() {
        ana.take(later, Mode::Read);
        for earlier in &ordered[..index] {
            let wanted = ana.want(earlier, Mode::Read);
            let failure = ana.failed(wanted);
            assert_eq!(failure.names, [resource(earlier), resource(later)]);
        }
        ana.release(later);
    }
    for name in ordered {
        ana.take(name, Mode::Read);
    }
}

fn what_is_awaited_counts_for_the_order(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    ana.take("b", Mode::Write);
    let wanted = bo.want("b", Mode::Write);
    stage.until_waiting("b", 1);
    let earlier = bo.want("a", Mode::Write);
    let failure = bo.failed(earlier);
    assert_eq!(failure.kind, Kind::Order);
    assert_eq!(failure.names, [resource("a"), resource("b")]);
    assert!(bo.cancel(wanted));
    bo.take("a", Mode::Write);
}

fn upgrading_while_something_later_is_held_is_refused(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let before = ana.take("b", Mode::Upgradeable);
    ana.take("c", Mode::Read);
    for command in [
        Command::TryUpgrade {
            resource: resource("b"),
        },
        Command::Upgrade {
            resource: resource("b"),
            wait: LONG_WAIT,
        },
    ] {
        let failure = refused(ana.ask(command));
        assert_eq!(failure.kind, Kind::Order, "{failure:?}");
        assert_eq!(failure.names, [resource("b"), resource("c")]);
    }
    bo.take("b", Mode::Read);
    bo.release("b");
    ana.release("c");
    assert!(ana.try_upgrade("b").unwrap() > before.token);
    // What is held and comes before does not matter.
    ana.release("b");
    ana.take("a", Mode::Write);
    ana.take("b", Mode::Upgradeable);
    ana.try_upgrade("b").unwrap();
}

fn a_set_is_taken_in_order_whatever_order_it_is_given_in(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let given = [
        ("c", Mode::Write),
        ("project:x", Mode::Read),
        ("b", Mode::Upgradeable),
    ];
    let set = want_set(&mut ana, &given);
    let Answer::Granted { leases } = ana.answer(set) else {
        panic!("it was free");
    };
    let taken: Vec<_> = leases.iter().map(|lease| lease.resource.as_str()).collect();
    assert_eq!(taken, ["project:x", "name:b", "name:c"]);
    let modes: Vec<_> = leases.iter().map(|lease| lease.mode).collect();
    assert_eq!(modes, [Mode::Read, Mode::Upgradeable, Mode::Write]);
    for name in ["c", "project:x", "b"] {
        ana.release(name);
    }
    // What comes first is waited for while nothing later is held.
    bo.take("project:x", Mode::Write);
    let set = want_set(&mut ana, &given);
    stage.until_waiting("project:x", 1);
    assert_eq!(stage.shown(), ["bo project:x write"]);
    bo.release("project:x");
    assert!(matches!(ana.answer(set), Answer::Granted { .. }));
}

fn a_set_is_taken_whole_or_not_at_all(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let names = ["a", "b", "c"];
    let items = || names.map(|name| (resource(name), Mode::Write)).to_vec();
    // What comes before the one that is held is taken in that time.
    let wait = stage.wait_of(Duration::from_millis(10), Duration::from_millis(500));
    for held in names {
        bo.take(held, Mode::Read);
        let answer = ana.ask(Command::TryMany { items: items() });
        assert!(matches!(answer, Answer::NotAcquired), "{answer:?}");
        assert_eq!(stage.shown(), [format!("bo name:{held} read")]);
        let answer = ana.ask(Command::AcquireMany {
            items: items(),
            wait,
        });
        let failure = refused(answer);
        assert_eq!(failure.kind, Kind::Timeout);
        assert_eq!(failure.names, [resource(held)]);
        assert_eq!(stage.shown(), [format!("bo name:{held} read")]);
        for free in names.into_iter().filter(|name| *name != held) {
            cy.take(free, Mode::Write);
            cy.release(free);
        }
        bo.release(held);
    }
    let answer = ana.ask(Command::TryMany { items: items() });
    assert!(matches!(&answer, Answer::Granted { leases } if leases.len() == 3));
}

fn of_a_resource_named_twice_the_strongest_mode_is_taken(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let set = want_set(
        &mut ana,
        &[("a", Mode::Read), ("a", Mode::Write), ("a", Mode::Read)],
    );
    assert!(matches!(ana.answer(set), Answer::Granted { .. }));
    assert_eq!(stage.shown(), ["ana name:a write"]);
}

fn sets_that_overlap_never_block_each_other_for_good(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let sets = [["a", "b"], ["b", "c"], ["c", "a"]];
    for _ in 0..15 {
        let mut asked = Vec::new();
        for (agent, names) in agents.iter_mut().zip(sets) {
            let items = names.map(|name| (name, Mode::Write));
            let pending = want_set(agent, &items);
            asked.push((agent, pending, names));
        }
        crate::stage::until("every set was had", || {
            asked.retain_mut(|(agent, pending, names)| {
                let Some(answer) = agent.answered(*pending) else {
                    return true;
                };
                assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
                for name in names {
                    agent.release(name);
                }
                false
            });
            asked.is_empty()
        });
    }
}
