//! A new lease.

use std::sync::{Arc, Mutex};

use tenure_core::{Error, Lease, Mode, Request, Result};
use tenure_files::clock;

use super::super::Guard;
use super::keys::Asking;
use super::{AdvisoryStore, Held, Shown, records};

impl AdvisoryStore {
    pub(super) async fn grant(&self, request: &Request, asking: Asking) -> Result<Option<Lease>> {
        if request.capacity.is_some() {
            return Err(Error::Configuration {
                problem: format!("{} counts no holders, so it has no slots", self.url),
                remedy: "use a store that has them, such as the lease store on postgres://".into(),
            });
        }
        let Some(keys) = self.take_keys(request, asking).await? else {
            return Ok(None);
        };
        if asking.waits() && is_late(request) {
            keys.release().await?;
            // Who has given up drops this.
            return std::future::pending().await;
        }
        let (shown_by, guard) = match (&keys.intent, &keys.door) {
            (_, Some(door)) => (Shown::Door, door),
            (Some(intent), None) => (Shown::Intent, intent),
            (None, None) => return Err(Error::Internal("a lease without a key".into())),
        };
        // The first may have been lost while the last was waited for.
        keys.guards().try_for_each(Guard::check)?;
        let drawn = (request.mode == Mode::Write).then(|| guard.token());
        let (token, acquired_at) = records::show(guard, request, drawn).await?;
        let held = Held {
            resource: request.resource.clone(),
            shown_by,
            keys: Mutex::new(keys),
        };
        self.held().insert(request.lease.clone(), Arc::new(held));
        Ok(Some(request.granted(token, acquired_at)))
    }
}

/// Whether the asker has given up: it may have been stopped when it should have said so.
fn is_late(request: &Request) -> bool {
    let until = request.until;
    until.is_some_and(|until| clock::boot_now() > until)
}
