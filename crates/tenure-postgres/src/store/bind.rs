//! A set is complete: its leases get the time their asker wants.
//!
//! Until this step they have the time of a guard and are renewed like one. From then on no process has them in hand, and
//! whoever knows their ids tends them; their rows say so by naming none. It is one durable transaction for all of
//! them, with the key they were asked under: after a crash either all have their time and the key names them, or none
//! has and they run out. Asked again because the answer was lost, it does the same once more.
//!
//! Dropped in its commit it comes to its end, and the key is given up after that: its guards release what nobody was told
//! of, and whoever asks again under the key must not find leases that are over.
//!
//! The rows of the resources are locked in the order of their names, so two sets that share some never wait for each
//! other; the row of the key comes after them, and who takes a key locks nothing else.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::decide::{Ask, Outcome};
use tenure_core::leases::{Keyed, grace};
use tenure_core::request::Newcomer;
use tenure_core::{Lease, LeaseId, Result};

use super::inner::Inner;
use super::keys;
use super::owed::carry;
use super::row::millis;
use super::sql::{Asked, values};
use super::step::Step;

/// Each row is locked by the step.
const OUT_OF_HAND: &str = "UPDATE tenure.dal_locks SET process = '' WHERE lock_id = ANY($1)";

impl Inner {
    pub(super) async fn bind_all(
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
                    // What cannot be given up now is forgotten after a day.
                    drop(store.drop_key(&keyed, Some(&leases)).await);
                }
            }
        };
        let work = async move {
            let bind = || store.bind_once(&leases, ttl, keyed.as_ref());
            store.retrying(bind).await
        };
        carry(self, work, undo).await
    }

    async fn bind_once(
        &self,
        leases: &[LeaseId],
        ttl: Duration,
        keyed: Option<&Keyed>,
    ) -> Result<Vec<Lease>> {
        let key = keyed.map(keys::hold);
        let (mut step, found) = Step::of_leases(self, leases, key).await?;
        let bound = bind_each(&mut step, leases, ttl);
        let bound = bound.and_then(|bound| {
            step.add(Asked::new(OUT_OF_HAND, values![ids(leases)]));
            if let Some(keyed) = keyed {
                keys::is_askers(&found, keyed, leases)?;
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
        let over = || step.store.over(lease);
        let row = step.loaded.lease(lease).cloned().ok_or_else(over)?;
        let bind = Ask::Bind {
            lease: lease.clone(),
            ttl: millis(ttl),
            grace: millis(grace(ttl)),
        };
        let decision = step.decide_alone(&row, &bind);
        if decision.outcome != Outcome::Done {
            return Err(over());
        }
        step.write(&decision.changes, Newcomer::None)?;
        let now = step.loaded.lease(lease);
        bound.push(now.map_or(row.lease, |row| row.lease.clone()));
    }
    Ok(bound)
}
