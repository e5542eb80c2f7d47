//! The end of a lease.

use tenure_core::{LeaseId, Result};

use super::{AdvisoryStore, over};

impl AdvisoryStore {
    pub(super) async fn give_back(&self, lease: &LeaseId) -> Result<()> {
        let held = self.held().remove(lease).ok_or_else(|| over(lease))?;
        let keys = std::mem::take(&mut *held.keys());
        keys.release().await
    }

    /// Its guards give the keys back in the background.
    pub(super) fn let_go(&self, lease: &LeaseId) {
        let held = self.held().remove(lease);
        drop(held.map(|held| std::mem::take(&mut *held.keys())));
    }
}
