//! Lists who holds and who awaits advisory locks.

use tenure::Result;
use tenure_api::advisory::{Entry, Locks, Ls};

use super::SERVER_WAIT;
use crate::{Caller, Handle, Service};

impl Handle<Ls> for Service {
    async fn handle(&self, _: Ls, caller: &Caller) -> Result<Locks> {
        let locks = self.advisory_locks(SERVER_WAIT, None, caller).await?;
        let listed = locks.list().await?;
        let entries = listed.locks.into_iter().map(|lock| Entry {
            id: lock.entity_id,
            lock,
        });
        Ok(Locks {
            locks: entries.collect(),
            total: listed.total,
            next: None,
        })
    }
}
