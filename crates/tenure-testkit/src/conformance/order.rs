//! The order of resources, and sets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure::{
    Error, Keeper, Mode, Options, Owner, Query, Ranking, Session, SessionOptions, Settings,
};

use super::case::{Case, case};
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::{Answer, Command, Failure, Kind};
use crate::agent::{Agent, LONG_WAIT, Pending, resource};
use crate::stage::{Stage, TTL_LONG};

pub(super) const CASES: &[Case] = &[
    case!(asking_for_something_ordered_before_is_refused_and_names_both),
    case!(kinds_are_ordered_by_rank_and_ids_by_bytes),
    case!(what_is_awaited_counts_for_the_order),
    case!(upgrading_while_something_later_is_held_is_refused),
    case!(a_set_is_taken_in_order_whatever_order_it_is_given_in),
    case!(a_set_is_taken_whole_or_not_at_all),
    case!(of_a_resource_named_twice_the_strongest_mode_is_taken),
    case!(sets_that_overlap_never_block_each_other_for_good),
    case!(
        another_order_is_refused_while_something_is_held_and_else_adopted,
        Leases
    ),
    case!(two_orders_are_never_in_use_at_once, Leases),
    case!(
        an_automated_owner_that_closes_a_circle_is_refused_and_audited,
        Leases
    ),
    case!(
        an_upgrade_that_closes_a_circle_is_refused_and_its_lease_is_as_before,
        Leases
    ),
    case!(a_circle_of_people_is_told_and_not_refused, Leases),
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
    // The answer depends neither on whether it is free nor on whether it is waited for.
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
    // Once the later one is released, the request is in order.
    ana.take("a", Mode::Write);
    ana.take("b", Mode::Write);
}

fn kinds_are_ordered_by_rank_and_ids_by_bytes(stage: &Stage<'_>) {
    let ordered = [
        "pool:z",
        "slot:z",
        "git:z",
        "project:y",
        "map:B",
        "map:a/10",
        "map:a/2",
        "sketch:z",
        "index:z",
        "gates:y",
        "issue:x",
        "agent:w",
        "file:v",
        "node:u",
        "job:t",
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
    // A held lock that is ordered before does not matter.
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
    // The first of the set is waited for while nothing later is held.
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
    // The wait is long enough to take all that comes before the one that is held.
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

/// Opens the store with this order of kinds, and begins a session of `ana`.
async fn session_with_order(stage: &Stage<'_>, kinds: &[&str]) -> Session {
    let ranking = Ranking::new(kinds.iter().map(|kind| (*kind).to_owned()));
    let settings = Settings::default().with_ranking(ranking);
    let keeper = Keeper::open_with(stage.url(), settings).await.unwrap();
    let options = SessionOptions::new(Owner::parse("ana").unwrap());
    keeper.session(options)
}

fn another_order_is_refused_while_something_is_held_and_else_adopted(stage: &Stage<'_>) {
    let options = || Options::default().with_wait(Duration::ZERO);
    stage.block_on(async {
        let default = session_with_order(stage, &[]).await;
        let other = session_with_order(stage, &["name", "project"]).await;
        let (a, b) = (resource("a"), resource("project:b"));
        let mut in_use = &default;
        for (turned_away, first) in [(&other, "slot git project"), (&default, "name events")] {
            let held = in_use.acquire(&a, Mode::Read, &options()).await.unwrap();
            // The order is refused for the resource that is held, and for others.
            for (asked, mode) in [(&a, Mode::Read), (&a, Mode::Write), (&b, Mode::Write)] {
                let refused = turned_away.acquire(asked, mode, &options()).await;
                let refused = refused.unwrap_err();
                assert!(matches!(refused, Error::Configuration { .. }), "{refused}");
                let said = refused.to_string();
                assert!(said.contains("kinds: ") && said.contains(first), "{said}");
                assert!(
                    said.contains("slot git project map") && said.contains("name events pool slot")
                );
            }
            // Sessions with the order that is in use are not disturbed.
            let more = in_use
                .acquire(&resource("c"), Mode::Write, &options())
                .await;
            more.unwrap().release().await.unwrap();
            held.release().await.unwrap();
            let adopted = turned_away.acquire(&b, Mode::Write, &options()).await;
            adopted.unwrap().release().await.unwrap();
            in_use = turned_away;
        }
    });
}

fn two_orders_are_never_in_use_at_once(stage: &Stage<'_>) {
    const TRIES: usize = 300;
    let holders = [const { AtomicUsize::new(0) }; 2];
    let ask = async |own: usize, session: Session| {
        let options = Options::default().with_wait(Duration::ZERO);
        for number in 0..TRIES {
            let asked = resource(&format!("r{}-{}", number % 7, session.id()));
            let guard = match session.acquire(&asked, Mode::Write, &options).await {
                Ok(guard) => guard,
                Err(Error::Configuration { .. }) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            holders[own].fetch_add(1, Ordering::SeqCst);
            assert_eq!(
                holders[1 - own].load(Ordering::SeqCst),
                0,
                "both are in use"
            );
            tokio::task::yield_now().await;
            holders[own].fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        }
    };
    stage.block_on(async {
        let sessions = [
            (0, session_with_order(stage, &[]).await),
            (1, session_with_order(stage, &["name", "project"]).await),
            (0, session_with_order(stage, &[]).await),
            (1, session_with_order(stage, &["name", "project"]).await),
        ];
        let [a, b, c, d] = sessions.map(|(own, session)| ask(own, session));
        tokio::join!(a, b, c, d);
    });
}

/// A wait that is longer than any test takes, and that an automated owner may still ask for.
const AUTOMATED_WAIT: Duration = Duration::from_secs(500);

fn wants(agent: &mut Agent, name: &str, mode: Mode) -> Pending {
    agent.want_keyed(&[(name, mode)], TTL_LONG, None, AUTOMATED_WAIT)
}

fn an_automated_owner_that_closes_a_circle_is_refused_and_audited(stage: &Stage<'_>) {
    // Each lock is asked for by a process of its own, as the commands of an agent do.
    let owners = ["agent:1", "agent:1", "agent:2", "agent:2"];
    let [mut one, mut one_waits, mut two, mut two_waits] = stage.agents(stage.apart(), owners);
    let (a, b) = (
        one.lock("a", Mode::Write, TTL_LONG),
        two.lock("b", Mode::Write, TTL_LONG),
    );
    let first = wants(&mut one_waits, "b", Mode::Write);
    stage.until_waiting("b", 1);
    let second = wants(&mut two_waits, "a", Mode::Read);
    let failure = two_waits.failed(second);
    assert_eq!(failure.kind, Kind::Deadlock, "{failure:?}");
    for named in [
        "name:a",
        "name:b",
        "agent:1",
        "agent:2",
        a.lease.as_str(),
        b.lease.as_str(),
    ] {
        assert!(failure.message.contains(named), "{named}: {failure:?}");
    }
    stage.until_waiting("a", 0);
    assert!(
        one_waits.answered(first).is_none(),
        "only who closes it is refused"
    );
    let told: Vec<String> = stage.recorded("a");
    assert!(told.contains(&"deadlock agent:2".to_owned()), "{told:?}");
    two.release_lease(&b.lease);
    let got = one_waits.locked(first).remove(0);
    one.release_lease(&a.lease);
    one_waits.release_lease(&got.lease);
}

fn an_upgrade_that_closes_a_circle_is_refused_and_its_lease_is_as_before(stage: &Stage<'_>) {
    let owners = ["agent:1", "agent:1", "agent:2", "agent:2"];
    let [mut one, mut other, mut two, mut two_waits] = stage.agents(stage.apart(), owners);
    let upgradeable = one.lock("b", Mode::Upgradeable, TTL_LONG);
    let held = other.lock("c", Mode::Write, TTL_LONG);
    let reader = two.lock("b", Mode::Read, TTL_LONG);
    let waits = wants(&mut two_waits, "c", Mode::Write);
    stage.until_waiting("c", 1);
    let refused = one.refused(LeaseCommand::upgrade(&upgradeable.lease, AUTOMATED_WAIT));
    assert_eq!(refused.kind, Kind::Deadlock, "{refused:?}");
    stage.until_waiting("b", 0);
    let listed = stage.listed(&upgradeable.lease).unwrap();
    assert_eq!(listed.mode, Mode::Upgradeable);
    other.release_lease(&held.lease);
    let got = two_waits.locked(waits).remove(0);
    for lease in [upgradeable, reader, got] {
        one.do_on_lease(LeaseCommand::Release {
            lease: lease.lease,
            by: None,
        });
    }
}

fn a_circle_of_people_is_told_and_not_refused(stage: &Stage<'_>) {
    let owners = ["ana", "ana", "bo", "bo"];
    let [mut ana, mut ana_waits, mut bo, mut bo_waits] = stage.agents(stage.apart(), owners);
    let circles = || stage.block_on(stage.keeper().circles()).unwrap();
    let a = ana.lock("a", Mode::Write, TTL_LONG);
    let b = bo.lock("b", Mode::Write, TTL_LONG);
    let first = wants(&mut ana_waits, "b", Mode::Write);
    stage.until_waiting("b", 1);
    assert_eq!(circles(), []);
    let second = wants(&mut bo_waits, "a", Mode::Write);
    stage.until_waiting("a", 1);
    let told = circles();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!told[0].is_certain);
    let said = told[0].to_string();
    for named in [
        "name:a",
        "name:b",
        "ana",
        "bo",
        a.lease.as_str(),
        b.lease.as_str(),
    ] {
        assert!(said.contains(named), "{named}: {said}");
    }
    let listing = stage
        .block_on(stage.keeper().list(&Query::default()))
        .unwrap();
    let waiting = listing.waiting.unwrap();
    assert_eq!(waiting.len(), 2);
    assert!(
        waiting.iter().all(|one| one.reason.contains(&said)),
        "{waiting:?}"
    );
    bo.release_lease(&b.lease);
    let got = ana_waits.locked(first).remove(0);
    ana.release_lease(&a.lease);
    let last = bo_waits.locked(second).remove(0);
    assert_eq!(circles(), []);
    ana_waits.release_lease(&got.lease);
    bo_waits.release_lease(&last.lease);
}
