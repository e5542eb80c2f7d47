//! Compares a target with its manifest.

use tenure::Result;
use tenure_api::publish::{Verified, Verify};
use tenure_files::publish::PublishTarget;
use tenure_work::publish::verify;

use crate::{Caller, Handle, Service};

impl Handle<Verify> for Service {
    async fn handle(&self, request: Verify, caller: &Caller) -> Result<Verified> {
        let keeper = self.locks(caller).await?;
        let publish_target = PublishTarget::new(&request.target, "verify")?;
        verify(&keeper, &publish_target).await
    }
}
