//! Leases that outlive their session, for programs that block.

use std::time::Duration;

use tenure::leases::LeaseTerms;
use tenure::{LeaseState, Mode, Owner, SessionOptions, blocking};
use tenure_core::audit::AuditQuery;
use tenure_core::leases::Recovery;

use crate::agent::lease_words::LeaseCommand;
use crate::agent::resource;
use crate::stage::{Stage, TTL_LONG, patient, set};

pub(super) fn the_blocking_front_tends_the_same_leases(stage: &Stage<'_>) {
    let settings = stage.keeper().settings().clone();
    let store = tenure::internal::store(stage.keeper()).clone();
    let keeper = blocking::Keeper::from_store(store, settings).unwrap();
    let owner = Owner::parse("ana").unwrap();
    let ana = keeper.session(SessionOptions::new(owner.clone()));
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let terms = LeaseTerms::default().with_ttl(TTL_LONG);
    let by = Some(&owner);
    let mut tend = || {
        let wanted = set(&[("a", Mode::Upgradeable)]);
        let lease = keeper
            .lock(&ana, &wanted, &terms, &patient())
            .unwrap()
            .remove(0);
        let id = &lease.lease;
        assert!(bo.try_take("a", Mode::Write).is_none());
        assert_eq!(keeper.find(id).unwrap(), lease);
        let renewed = keeper.renew(id, Some(TTL_LONG * 2), by).unwrap();
        assert!(renewed.expires_at > lease.expires_at);
        let upgraded = keeper.upgrade(&ana, id, Some(Duration::ZERO), by).unwrap();
        assert!(bo.try_take("a", Mode::Read).is_none());
        keeper.check(&resource("a"), upgraded.token).unwrap();
        assert!(keeper.check(&resource("a"), lease.token).is_err());
        let downgraded = keeper.downgrade(id, by).unwrap();
        assert_eq!(downgraded.mode, Mode::Upgradeable);
        assert_eq!(bo.change(LeaseCommand::renew(id)).mode, Mode::Upgradeable);
        let found = keeper.recover(&owner, Recovery::Real).unwrap();
        assert!(found.iter().all(|found| !found.recovered), "{found:?}");
        let broken = keeper.break_lease(id, &owner, "it hangs").unwrap();
        assert_eq!(broken.state, LeaseState::Revoking);
        keeper.release(id, by).unwrap();
        let record = keeper.audit(&AuditQuery::default()).unwrap();
        assert!(
            record
                .entries
                .iter()
                .any(|entry| entry.lease.as_ref() == Some(id))
        );
        bo.take("a", Mode::Write);
        bo.release("a");
    };
    tend();
    // Code inside a runtime may block, too.
    stage.block_on(async { tend() });
}
