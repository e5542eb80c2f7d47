//! Binds a complete set: its leases get the time that their asker wants.
//!
//! Until this step the leases have the time of a guard's lease and are renewed like one. From then
//! on they belong to no process: their rows name none, and any caller that knows their ids renews
//! and releases them. One durable transaction binds all of them, with the key they were asked
//! under: after a crash either all have their time and the key names them, or none has and they
//! expire. A second try, made because the answer was lost, writes all of it once more.
//!
//! A bind that is dropped during its commit runs to its end, and then gives the key up: the guards
//! release these leases, of which no caller was told, and the next request under the key must not
//! find leases that are over.
//!
//! The rows of the resources are locked in the order of their names, so two sets that share some
//! never wait for each other; the row of the key is locked after them, and taking a key locks
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::decide::{Ask, Outcome};
use tenure_core::leases::Keyed;
use tenure_core::{Error, Lease, LeaseId, Result};

use super::cleanup::run_to_end;
use super::inner::Inner;
use super::keys;
use super::sql::{Statement, values};
use super::step::Step;

/// The step has locked the resource of each lease.
const OUT_OF_HAND: &str = "UPDATE tenure.dal_locks SET process = '' WHERE lock_id = ANY($1)";

impl Inner {
    pub(super) async fn bind(
        &self,
        leases: &[LeaseId],
        ttl: Duration,
        keyed: Option<&Keyed>,
    ) -> Result<Vec<Lease>> {
        let (store, keyed, leases) = (self.arc()?, keyed.cloned(), leases.to_vec());
        let undo = {
            let (store, keyed, leases) = (Arc::clone(&store), keyed.clone(), leases.clone());
            move |_| async move {
                if let Some(keyed) = keyed {
                    // A key that cannot be given up now is deleted after a day.
                    drop(store.forget_key_of(&keyed, Some(&leases)).await);
                }
            }
        };
        let work = async move {
            let bind = || store.bind_once(&leases, ttl, keyed.as_ref());
            store.retrying(bind).await
        };
        run_to_end(self, work, undo).await
    }

    async fn bind_once(
        &self,
        leases: &[LeaseId],
        ttl: Duration,
        keyed: Option<&Keyed>,
    ) -> Result<Vec<Lease>> {
        let key = keyed.map(keys::lock);
        let (mut step, found) = Step::of_leases(self, leases, key).await?;
        let bound = bind_each(&mut step, leases, ttl);
        let bound = bound.and_then(|bound| {
            step.add(Statement::new(OUT_OF_HAND, values![ids(leases)]));
            if let Some(keyed) = keyed {
                keys::check_askers(&found, keyed, leases)?;
                step.add(keys::complete(keyed, leases)?);
            }
            Ok(bound)
        });
        match bound {
            Ok(bound) => {
                step.commit().await?;
                Ok(bound)
            }
            Err(error) => {
                step.roll_back().await?;
                Err(error)
            }
        }
    }
}

fn ids(leases: &[LeaseId]) -> Vec<String> {
    leases.iter().map(ToString::to_string).collect()
}

fn bind_each(step: &mut Step<'_>, leases: &[LeaseId], ttl: Duration) -> Result<Vec<Lease>> {
    let mut bound = Vec::with_capacity(leases.len());
    for lease in leases {
        let over = || Error::not_held(lease);
        let row = step.loaded.lease(lease).cloned().ok_or_else(over)?;
        let bind = Ask::bind(lease, ttl, step.store.grace(ttl));
        let decision = step.decide_alone(&row, &bind);
        if decision.outcome != Outcome::Done {
            return Err(over());
        }
        step.write(&decision.changes, None)?;
        let now = step.loaded.lease(lease);
        bound.push(now.map_or(row.lease, |row| row.lease.clone()));
    }
    Ok(bound)
}
