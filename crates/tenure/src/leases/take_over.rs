//! Takes a lease out of the hands of a guard of the same owner.
//!
//! A guard that is dead, stopped or slow keeps its lease in hand for as long as its time or its
//! session lasts, and no caller can renew it by its id. A later request of the same owner must
//! neither wait for that nor go without a lease.
//!
//! # Steps
//!
//! 1. The lease is looked up: it belongs to the owner of the session, and was taken by the coding
//!    agent around it, if there is one.
//! 2. In one step the store gives it another id, the session of the caller, and time of its own. No
//!    other request gets the resource in between.
//!
//! | before 2 | result |
//! |---|---|
//! | the guard binds the lease, and its caller relies on it | 2 finds it in the hands of no guard: the caller renews it instead |
//! | the guard releases it, or its time is over | 2 finds nothing |
//! | a person breaks it | 2 finds it revoking, and leaves it |
//!
//! After 2 the guard finds that the old id is over: it can neither bind nor release what was taken
//! over. A crash after 2 leaves a lease that runs out by its own time.

use std::time::Duration;

use tenure_core::{Error, Lease, LeaseId, Result};

use super::{check_ttl, permit};
use crate::retry::retry;
use crate::{Keeper, Session, ids};

impl Keeper {
    /// Takes a lease of the session's owner out of the hands of another session. Returns it under
    /// its new id, or `None` if it is over or in the hands of no guard.
    ///
    /// # Errors
    ///
    /// Errors of [`find`](Keeper::find); `NotAllowed` if it belongs to another owner, or the coding
    /// agent that asks did not take it.
    pub async fn take_over(
        &self,
        session: &Session,
        lease: &LeaseId,
        ttl: Duration,
    ) -> Result<Option<Lease>> {
        check_ttl(ttl)?;
        self.settings().automated.check_ttl(session.owner(), ttl)?;
        let found = permit::find(self, lease, "take over").await?;
        if found.owner != *session.owner() {
            return Err(Error::not_allowed(
                format!(
                    "cannot take over lease {lease}: it belongs to {}",
                    found.owner
                ),
                "only its owner may",
            ));
        }
        permit::check_agent(self, &found, "take over")?;
        let leases = permit::leases(self, "take over")?;
        let (new, asker) = (ids::lease_id(), &session.shared.asker);
        retry(self.retry(), || leases.take_over(lease, &new, ttl, asker)).await
    }
}
