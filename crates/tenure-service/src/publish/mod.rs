//! The operations of publish: a directory is put in place whole, verified, and its history listed.
//!
//! | file | what it holds |
//! |---|---|
//! | `put` | the lease, the publish under it, its release, and then the removal of what was there before |
//! | `lease` | the lease that a publish works under |
//! | `progress` | tells the observer how far the copy is |
//! | here | a look at what was published |
//!
//! The steps, and what a crash leaves, are in `tenure_work::publish`.

mod lease;
mod progress;
mod put;

use tenure::Result;
use tenure_api::publish::{History, Manifests, Verified, Verify};
use tenure_files::publish::PublishTarget;
use tenure_work::publish::{history, verify};

use crate::{Caller, Handle, Service};

impl Handle<Verify> for Service {
    async fn handle(&self, request: Verify, caller: &Caller) -> Result<Verified> {
        let keeper = self.locks(caller).await?;
        let publish_target = PublishTarget::new(&request.target, "verify")?;
        verify(&keeper, &publish_target).await
    }
}

impl Handle<History> for Service {
    async fn handle(&self, request: History, caller: &Caller) -> Result<Manifests> {
        let keeper = self.locks(caller).await?;
        let publish_target = PublishTarget::new(&request.target, "history")?;
        history(&keeper, &publish_target).await.map(Manifests::new)
    }
}
