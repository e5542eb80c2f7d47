//! Permissions: the owners and sessions that may change a lease by its id.

use tenure::{Binding, Class, LeaseId, Mode, Owner, SessionOptions};

use crate::agent::lease_words::LeaseCommand;
use crate::agent::resource;
use crate::agent::words::Kind;
use crate::stage::{Stage, TTL_LONG, patient};

pub(super) fn only_its_owner_tends_a_lease_where_an_owner_is_given(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
    let as_before = [lease.clone()];
    for other in ["bo", "ana2", "Ana"] {
        let tend = LeaseCommand::all_of_its_owner(&lease.lease, Some(other));
        bo.all_refused(Kind::NotAllowed, tend);
        assert_eq!(stage.held(), as_before, "{other}");
    }
    // The owner counts, not the process, nor the session.
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
    // The session goes on with it as if nothing had happened.
    ana.try_upgrade("a").unwrap();
    ana.release("a");
}

pub(super) fn what_a_guard_has_in_hand_its_owner_takes_over_and_nobody_gets_it_in_between(
    stage: &Stage<'_>,
) {
    let session = |owner: &str| {
        let options = SessionOptions::new(Owner::parse(owner).unwrap());
        stage.keeper().session(options)
    };
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let (first, later, other) = (session("ana"), session("ana"), session("cy"));
    let guard = stage.block_on(first.acquire(&resource("a"), Mode::Write, &patient()));
    let guard = guard.unwrap();
    let before = guard.lease();
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let take_over =
        |by, lease: &LeaseId| stage.block_on(stage.keeper().take_over(by, lease, TTL_LONG));
    let refused = take_over(&other, &before.lease).unwrap_err();
    assert_eq!(refused.class(), Class::NotAllowed);
    let taken = take_over(&later, &before.lease).unwrap().unwrap();
    assert_ne!(taken.lease, before.lease);
    assert_eq!((taken.token, taken.binding), (before.token, Binding::Lease));
    assert_eq!(&taken.session, later.id());
    // The guard of the earlier session gives nothing back any more.
    assert!(stage.block_on(guard.release()).is_err());
    assert_eq!(stage.held(), std::slice::from_ref(&taken));
    assert!(bo.answered(wanted).is_none());
    // No guard has the lease now, and under its old id it is over.
    assert_eq!(take_over(&later, &taken.lease).unwrap(), None);
    assert!(take_over(&later, &before.lease).is_err());
    let released = stage.keeper().release(&taken.lease, Some(later.owner()));
    assert_eq!(stage.block_on(released).unwrap(), taken);
    bo.granted(wanted);
    bo.release("a");
}
