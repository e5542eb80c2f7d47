//! Upgradeable leases that become write by their ids, and back.

use std::time::Duration;

use tenure::{LeaseState, Mode};

use super::SHORT;
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::{Answer, Command, Kind};
use crate::agent::{LONG_WAIT, resource};
use crate::stage::{Stage, TTL_LONG, TTL_SHORT};

pub(super) fn a_lease_is_upgraded_and_downgraded_by_its_id(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
    let mut last = lease.token;
    for _ in 0..3 {
        let upgraded = ana.change(LeaseCommand::upgrade(&lease.lease, Duration::ZERO));
        assert_eq!(upgraded.mode, Mode::Write);
        assert!(upgraded.token > last, "{} after {last}", upgraded.token);
        last = upgraded.token;
        assert_eq!(stage.listed(&lease.lease), Some(upgraded.clone()));
        assert!(bo.try_take("a", Mode::Read).is_none());
        assert!(upgraded.expires_at >= lease.expires_at);
        let downgraded = ana.change(LeaseCommand::downgrade(&lease.lease));
        assert_eq!(
            (downgraded.mode, downgraded.token),
            (Mode::Upgradeable, last)
        );
        assert_eq!(stage.listed(&lease.lease), Some(downgraded));
        assert_eq!(bo.take("a", Mode::Read).token, last);
        bo.release("a");
    }
    ana.release_lease(&lease.lease);
}

pub(super) fn an_upgrade_by_id_waits_for_the_readers(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
    bo.take("a", Mode::Read);
    let upgrade = |wait| LeaseCommand::upgrade(&lease.lease, wait);
    assert_eq!(ana.refused(upgrade(Duration::ZERO)).kind, Kind::Busy);
    assert_eq!(ana.refused(upgrade(SHORT)).kind, Kind::Timeout);
    let listed = stage.listed(&lease.lease).unwrap();
    assert_eq!(
        (listed.mode, listed.token),
        (Mode::Upgradeable, lease.token)
    );
    assert_eq!(stage.waiting("a"), 0);
    // During its wait new readers wait; when it is dropped, it lets them in.
    let waiting = ana.send(Command::OnLease(upgrade(LONG_WAIT)));
    stage.until_waiting("a", 1);
    let wanted = cy.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    assert!(ana.cancel(waiting));
    cy.granted(wanted);
    let waiting = ana.send(Command::OnLease(upgrade(LONG_WAIT)));
    for reader in [&mut bo, &mut cy] {
        stage.until_waiting("a", 1);
        assert!(ana.answered(waiting).is_none());
        reader.release("a");
    }
    match ana.answer(waiting) {
        Answer::Changed { lease: upgraded } => {
            assert_eq!(upgraded.mode, Mode::Write);
            assert!(upgraded.token > lease.token);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.shown(), ["ana name:a write"]);
    ana.release_lease(&lease.lease);
}

pub(super) fn an_upgrade_by_id_keeps_to_the_order_of_the_session_that_locked(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let items = [("a", Mode::Upgradeable), ("b", Mode::Read)];
    let asked = ana.want_lock(&items, TTL_LONG);
    let leases = ana.locked(asked);
    let [a, b] = [&leases[0].lease, &leases[1].lease];
    // Whichever agent asks, the session of the lease would wait while it holds something later.
    for agent in [&mut ana, &mut bo] {
        let failure = agent.refused(LeaseCommand::upgrade(a, LONG_WAIT));
        assert_eq!(failure.kind, Kind::Order, "{failure:?}");
        assert_eq!(failure.names, [resource("a"), resource("b")]);
    }
    assert_eq!(stage.listed(a).unwrap().mode, Mode::Upgradeable);
    ana.release_lease(b);
    ana.upgrade_lease(a);
    ana.release_lease(a);
}

pub(super) fn only_an_upgradeable_lease_is_upgraded_by_its_id(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    for mode in Mode::ALL {
        let lease = ana.lock("a", mode, TTL_LONG);
        let downgrade = LeaseCommand::downgrade(&lease.lease);
        assert_eq!(ana.refused(downgrade).kind, Kind::Conflict, "{mode}");
        if mode != Mode::Upgradeable {
            for wait in [Duration::ZERO, LONG_WAIT] {
                let upgrade = LeaseCommand::upgrade(&lease.lease, wait);
                assert_eq!(ana.refused(upgrade).kind, Kind::Conflict, "{mode}");
            }
        }
        assert_eq!(stage.held(), std::slice::from_ref(&lease));
        ana.release_lease(&lease.lease);
    }
}

/// An expired lease may be taken over at any moment: it must be renewed before it becomes
/// exclusive.
pub(super) fn an_upgrade_of_an_expired_lease_is_refused(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_SHORT);
    stage.until_expired(&lease.lease);
    let failure = ana.refused(LeaseCommand::upgrade(&lease.lease, Duration::ZERO));
    let kinds = [Kind::LeaseOver, Kind::NotAllowed, Kind::Conflict];
    assert!(kinds.contains(&failure.kind), "{failure:?}");
    let listed = stage.listed(&lease.lease).unwrap();
    assert_eq!(
        (listed.mode, listed.state, listed.token),
        (Mode::Upgradeable, LeaseState::Expired, lease.token)
    );
    let renewed = ana.change(LeaseCommand::Renew {
        lease: lease.lease.clone(),
        ttl: Some(TTL_LONG),
        by: None,
    });
    assert!(ana.upgrade_lease(&lease.lease) > renewed.token);
    ana.release_lease(&lease.lease);
}
