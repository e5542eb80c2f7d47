//! Who may do what with a lease, by its id.

use tenure::{LeaseId, Mode};

use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::Kind;
use crate::stage::{Stage, TTL_LONG};

pub(super) fn only_its_owner_tends_a_lease_where_an_owner_is_given(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
    let as_before = [lease.clone()];
    for other in ["bo", "ana2", "Ana"] {
        let tend = LeaseCommand::all_of_its_owner(&lease.lease, Some(other));
        bo.all_refused(Kind::NotAllowed, tend);
        assert_eq!(stage.held(), as_before, "{other}");
    }
    // It is the owner that counts, not the process, nor the session.
    let [renew, upgrade, downgrade, release] =
        LeaseCommand::all_of_its_owner(&lease.lease, Some("ana"));
    bo.change(renew);
    assert_eq!(bo.change(upgrade).mode, Mode::Write);
    assert_eq!(bo.change(downgrade).mode, Mode::Upgradeable);
    bo.do_on_lease(release);
}

pub(super) fn an_unknown_lease_is_not_found(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let held = ana.lock("a", Mode::Write, TTL_LONG);
    let unknown = LeaseId::parse("00-unknown").unwrap();
    for by in [None, Some("ana"), Some("bo")] {
        let tend = LeaseCommand::all_of_its_owner(&unknown, by);
        ana.all_refused(Kind::NotFound, tend);
    }
    let find = LeaseCommand::Find {
        lease: unknown.clone(),
    };
    let break_it = LeaseCommand::Break {
        lease: unknown,
        reason: "it hangs".into(),
    };
    ana.all_refused(Kind::NotFound, [find, break_it]);
    assert_eq!(stage.held(), std::slice::from_ref(&held));
    ana.release_lease(&held.lease);
}

pub(super) fn a_released_lease_is_over(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    for mode in Mode::ALL {
        let lease = ana.lock("a", mode, TTL_LONG).lease;
        ana.release_lease(&lease);
        let tend = LeaseCommand::all_of_its_owner(&lease, None);
        ana.all_refused(Kind::LeaseOver, tend);
        assert_eq!(stage.held(), [], "{mode}");
    }
}

pub(super) fn the_lock_of_a_session_is_not_ended_by_its_id(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.take("a", Mode::Upgradeable);
    for by in [None, Some("ana"), Some("bo")] {
        let tend = || LeaseCommand::all_of_its_owner(&lease.lease, by);
        bo.all_refused(Kind::NotAllowed, tend());
        ana.all_refused(Kind::NotAllowed, tend());
    }
    let listed = stage.listed(&lease.lease).unwrap();
    assert_eq!(
        (listed.mode, listed.binding),
        (Mode::Upgradeable, stage.binding())
    );
    assert_eq!(listed.expires_at.is_some(), stage.is_lease_bound());
    // The session goes on with it as if nothing had been.
    ana.try_upgrade("a").unwrap();
    ana.release("a");
}
