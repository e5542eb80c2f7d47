//! The audit: which owner did what to which lock, when and why.

use std::time::SystemTime;

use tenure::{Mode, Timestamp};
use tenure_core::audit::{Action, AuditQuery};

use super::case::{Case, case};
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::{Answer, Kind};
use crate::agent::{Agent, resource};
use crate::stage::{Stage, TTL_LONG};

pub(super) const CASES: &[Case] = &[
    case!(nothing_is_recorded_where_nothing_was_done, Leases),
    case!(every_step_of_a_lock_is_recorded_in_order, Leases),
    case!(every_step_of_a_lease_is_recorded_in_order, Leases),
    case!(
        a_grant_to_a_waiter_comes_after_the_release_before_it,
        Leases
    ),
    case!(what_was_not_granted_is_not_recorded, Leases),
    case!(a_set_is_recorded_lock_by_lock, Leases),
    case!(pages_cover_the_record_exactly_once, Leases),
    case!(the_record_is_read_by_resource_and_from_a_time_on, Leases),
    case!(every_process_reads_the_same_record, Leases),
];

fn nothing_is_recorded_where_nothing_was_done(stage: &Stage<'_>) {
    assert_eq!(stage.audit(&AuditQuery::default()), []);
}

fn every_step_of_a_lock_is_recorded_in_order(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let before = Timestamp::from(SystemTime::now());
    let taken = ana.take("map:a/b", Mode::Upgradeable);
    let upgraded = ana.try_upgrade("map:a/b").unwrap();
    ana.downgrade("map:a/b");
    ana.release("map:a/b");
    let after = Timestamp::from(SystemTime::now());
    let entries = stage.audit(&AuditQuery::default());
    let shown: Vec<_> = entries.iter().map(|e| (e.action, e.token)).collect();
    assert_eq!(
        shown,
        [
            (Action::Acquire, Some(taken.token)),
            (Action::Upgrade, Some(upgraded)),
            (Action::Downgrade, Some(upgraded)),
            (Action::Release, Some(upgraded))
        ]
    );
    for entry in &entries {
        assert_eq!(entry.resource, resource("map:a/b"));
        assert_eq!(entry.lease.as_ref(), Some(&taken.lease));
        assert_eq!((entry.owner.as_str(), entry.actor.as_str()), ("ana", "ana"));
        assert!(before <= entry.at && entry.at <= after, "{entry:?}");
    }
    assert!(entries.is_sorted_by_key(|entry| entry.at));
}

fn every_step_of_a_lease_is_recorded_in_order(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
    let [renew, upgrade, downgrade, release] =
        LeaseCommand::all_of_its_owner(&lease.lease, Some("ana"));
    // The owner renews it from another process.
    bo.change(renew);
    let upgraded = bo.change(upgrade).token;
    bo.change(downgrade);
    bo.do_on_lease(release);
    let entries = stage.audit_of("a");
    let shown: Vec<_> = entries.iter().map(|e| (e.action, e.token)).collect();
    assert_eq!(
        shown,
        [
            (Action::Acquire, Some(lease.token)),
            (Action::Upgrade, Some(upgraded)),
            (Action::Downgrade, Some(upgraded)),
            (Action::Release, Some(upgraded))
        ]
    );
    for entry in &entries {
        assert_eq!(entry.lease.as_ref(), Some(&lease.lease));
        assert_eq!((entry.owner.as_str(), entry.actor.as_str()), ("ana", "ana"));
    }
}

fn a_grant_to_a_waiter_comes_after_the_release_before_it(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let first = ana.take("a", Mode::Write);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let behind = cy.want("a", Mode::Upgradeable);
    stage.until_waiting("a", 2);
    ana.release("a");
    let second = bo.granted(wanted);
    bo.release("a");
    let third = cy.granted(behind);
    cy.release("a");
    let entries = stage.audit_of("a");
    let shown: Vec<_> = entries
        .iter()
        .filter_map(|e| Some((e.action, e.lease.as_ref()?)))
        .collect();
    assert_eq!(
        shown,
        [
            (Action::Acquire, &first.lease),
            (Action::Release, &first.lease),
            (Action::Acquire, &second.lease),
            (Action::Release, &second.lease),
            (Action::Acquire, &third.lease),
            (Action::Release, &third.lease)
        ]
    );
    for (entry, agent) in entries.iter().zip(["ana", "ana", "bo", "bo", "cy", "cy"]) {
        assert_eq!(entry.owner.as_str(), agent);
    }
    assert_eq!(entries[2].token, Some(second.token));
}

fn what_was_not_granted_is_not_recorded(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
    assert!(bo.try_take("a", Mode::Write).is_none());
    let moment = std::time::Duration::from_millis(20);
    let wanted = bo.want_for("a", Mode::Write, moment);
    assert_eq!(bo.failed(wanted).kind, Kind::Timeout);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    assert!(bo.cancel(wanted));
    stage.until_waiting("a", 0);
    let by_another = LeaseCommand::all_of_its_owner(&lease.lease, Some("bo"));
    bo.all_refused(Kind::NotAllowed, by_another);
    bo.take("a", Mode::Read);
    let upgrade = LeaseCommand::upgrade(&lease.lease, std::time::Duration::ZERO);
    assert_eq!(ana.refused(upgrade).kind, Kind::Busy);
    assert_eq!(stage.recorded("a"), ["acquire ana", "acquire bo"]);
    ana.release_lease(&lease.lease);
}

fn a_set_is_recorded_lock_by_lock(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let items = [
        ("map:m", Mode::Read),
        ("a", Mode::Write),
        ("b", Mode::Write),
    ];
    let asked = ana.want_lock(&items, TTL_LONG);
    let leases = ana.locked(asked);
    let shown = |stage: &Stage<'_>| -> Vec<_> {
        let entries = stage.audit(&AuditQuery::default()).into_iter();
        entries
            .filter_map(|entry| Some((entry.action, entry.lease?)))
            .collect()
    };
    let taken = leases
        .iter()
        .map(|lease| (Action::Acquire, lease.lease.clone()));
    assert_eq!(shown(stage), taken.collect::<Vec<_>>());
    for lease in &leases {
        ana.release_lease(&lease.lease);
    }
    assert_eq!(shown(stage).len(), items.len() * 2);
}

/// Makes an audit of some length, over several resources. Returns the number of entries.
fn busy(agents: &mut [Agent]) -> usize {
    const ROUNDS: usize = 6;
    for _ in 0..ROUNDS {
        for agent in &mut *agents {
            for name in ["a", "b", "map:m"] {
                agent.take(name, Mode::Write);
                agent.release(name);
            }
        }
    }
    ROUNDS * agents.len() * 3 * 2
}

fn pages_cover_the_record_exactly_once(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "bo"]);
    let count = busy(&mut agents);
    let all = stage.audit(&AuditQuery::default());
    assert_eq!(all.len(), count);
    for limit in [1, 2, 5, count - 1, count, count + 1] {
        let query = AuditQuery::default().with_limit(limit);
        assert_eq!(stage.audit(&query), all, "pages of {limit}");
        let of_b = query.with_resource(resource("b"));
        assert_eq!(stage.audit(&of_b), stage.audit_of("b"), "pages of {limit}");
    }
    // An entry that is added during the reading is on a later page, and no entry is there twice.
    let query = AuditQuery::default().with_limit(count - 1);
    let page = stage.block_on(stage.keeper().audit(&query)).unwrap();
    let more = busy(&mut agents);
    let rest = stage.audit(&AuditQuery::default().with_after(page.next.unwrap()));
    assert_eq!((page.entries.len(), rest.len()), (count - 1, more + 1));
    assert_eq!(rest[0], all[count - 1]);
}

fn the_record_is_read_by_resource_and_from_a_time_on(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "bo"]);
    let early = busy(&mut agents);
    let last = stage.audit(&AuditQuery::default()).pop().unwrap().at;
    // The clock of the record has milliseconds: the next entry is a later one.
    crate::stage::until("the clock goes on", || {
        Timestamp::from(SystemTime::now()) > last
    });
    let since = Timestamp::from(SystemTime::now());
    let late = busy(&mut agents);
    let all = stage.audit(&AuditQuery::default());
    assert_eq!(all.len(), early + late);
    for only in [None, Some("a"), Some("map:m"), Some("none")] {
        for since in [None, Some(since)] {
            let mut query = AuditQuery::default();
            query.resource = only.map(resource);
            query.since = since;
            let of_it = |entry: &&tenure_core::audit::Entry| {
                only.is_none_or(|only| entry.resource == resource(only))
                    && since.is_none_or(|since| entry.at >= since)
            };
            let expected: Vec<_> = all.iter().filter(of_it).cloned().collect();
            assert_eq!(stage.audit(&query), expected, "{query:?}");
        }
    }
    let from_then_on = AuditQuery::default().with_since(since);
    assert_eq!(stage.audit(&from_then_on).len(), late);
}

fn every_process_reads_the_same_record(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    ana.take("a", Mode::Write);
    ana.release("a");
    let lease = bo.lock("a", Mode::Write, TTL_LONG);
    bo.release_lease(&lease.lease);
    let here = serde_json::to_value(stage.audit_of("a")).unwrap();
    assert_eq!(here.as_array().map(Vec::len), Some(4));
    for agent in [&mut ana, &mut bo] {
        let resource = resource("a");
        match agent.on_lease(LeaseCommand::Audit { resource }) {
            Answer::Told { list } => assert_eq!(list, here),
            other => panic!("{other:?}"),
        }
    }
}
