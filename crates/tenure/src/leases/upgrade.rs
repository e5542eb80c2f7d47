//! Upgrades a lease by its id.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Lease, LeaseId, Mode, Owner, Result};

use super::permit;
use crate::retry::retry;
use crate::session::wait as wait_for;
use crate::{Keeper, Session};

impl Keeper {
    /// Makes an upgradeable lease exclusive, waiting for the readers to leave. The session only
    /// waits: it does not hold the lease. On failure the lease is as before.
    ///
    /// # Errors
    ///
    /// Errors of [`renew`](Keeper::renew); `Conflict` if it is not upgradeable; `Order` if the
    /// session that took the lease, or the one that waits, holds anything that is ordered later.
    pub async fn upgrade(
        &self,
        session: &Session,
        lease: &LeaseId,
        wait: Option<Duration>,
        by: Option<&Owner>,
    ) -> Result<Lease> {
        let shared = &session.shared;
        let deadline = shared.deadline(wait)?;
        let mut before = permit::permit(self, lease, "upgrade", by).await?;
        if before.mode != Mode::Upgradeable {
            return Err(Error::unexpected(
                shared.context(&before.resource, Mode::Write),
                "an upgradeable lease",
                before.mode.to_string(),
            ));
        }
        check_order(self, &before).await?;
        shared.forget_ended().await?;
        let (resource, refused) = (&before.resource, |refusal| {
            shared.refused(refusal, Mode::Write)
        });
        // The locks of the waiting session can lead to a deadlock, too.
        let place = shared.locks.enter_upgrade(resource).map_err(refused)?;
        let mut request = shared.upgrade_request(lease, true, &deadline);
        if let Some(by) = by.filter(|by| **by != request.asker.owner) {
            // The session asks in the name of the owner.
            Arc::make_mut(&mut request.asker).owner = by.clone();
        }
        let ask = || self.store().upgrade(&request);
        let upgraded = match place.wait_until_first(&deadline).await {
            Ok(()) => wait_for(&deadline, self.retry(), ask).await?,
            Err(gave_up) => Err(gave_up),
        };
        let token = match upgraded {
            Ok(token) => token,
            Err(gave_up) => {
                let error = shared.in_the_way(gave_up, resource, Mode::Write, Some(lease));
                return Err(error.await);
            }
        };
        // The lease may have been renewed during the wait. If it cannot be looked up again, it is
        // upgraded all the same.
        let now = permit::find(self, lease, "upgrade").await;
        before.mode = Mode::Write;
        before.token = token;
        Ok(now.unwrap_or(before))
    }
}

/// Refuses an upgrade while the session that took the lease holds anything ordered later: two
/// sessions that each hold what the other waits for would deadlock.
async fn check_order(keeper: &Keeper, lease: &Lease) -> Result<()> {
    let leases = permit::leases(keeper, "upgrade")?;
    let policy = keeper.retry();
    let held = retry(policy, || leases.of_session(&lease.session)).await?;
    let ranking = &keeper.settings().ranking;
    let later = |held: &Lease| {
        let order = ranking.compare(&lease.resource, &held.resource);
        held.lease != lease.lease && order == Ordering::Less
    };
    match held.into_iter().find(later) {
        None => Ok(()),
        Some(held) => Err(Error::Order {
            asked: lease.resource.clone(),
            held: held.resource,
        }),
    }
}
