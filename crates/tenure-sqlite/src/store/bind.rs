//! Binding: the leases of a complete set get their own expiry.
//!
//! Until this step they are bound to the session that asks, so they neither expire while the rest
//! of the set is awaited, nor outlive an asker that dies half-way. One durable transaction binds
//! all of them and completes the key of the request: after a crash either all are there and the
//! key names them, or none is.

use std::time::Duration;

use tenure_core::decide::{Ask, Outcome};
use tenure_core::leases::Keyed;
use tenure_core::{Error, Lease, LeaseId, Result};

use super::inner::Inner;
use super::keys;
use super::load::{Loaded, load_lease};
use super::step::Step;
use crate::connection::Durability;

impl Inner {
    pub(super) async fn bind(
        &self,
        leases: &[LeaseId],
        ttl: Duration,
        keyed: Option<&Keyed>,
    ) -> Result<Vec<Lease>> {
        let bound = self.write(Durability::PowerLoss, |step| {
            let mut bound = Vec::with_capacity(leases.len());
            for lease in leases {
                bound.push(bind_one(step, lease, ttl)?);
            }
            if let Some(keyed) = keyed {
                keys::complete(step, keyed, leases)?;
            }
            Ok(bound)
        });
        let bound = bound.await?;
        for lease in leases {
            self.sessions.no_longer_holds(lease);
        }
        Ok(bound)
    }
}

pub(super) fn bind_one(step: &mut Step<'_>, lease: &LeaseId, ttl: Duration) -> Result<Lease> {
    let row = load_lease(step.sql, lease, &step.moment)?.ok_or_else(|| Error::not_held(lease))?;
    let bind = Ask::bind(lease, ttl, step.store.grace(ttl));
    // The lease's own row decides alone.
    let alone = Loaded::alone(&row);
    let decision = step.decide_alone(&alone, &bind);
    if decision.outcome != Outcome::Done {
        return Err(Error::not_held(lease));
    }
    step.write(&row.lease.resource, &alone, &decision.changes, None)?;
    let bound = load_lease(step.sql, lease, &step.moment)?.ok_or_else(|| Error::not_held(lease))?;
    Ok(bound.lease)
}
