//! Lists what was published to a target.

use tenure::Result;
use tenure_api::publish::{History, Manifests};
use tenure_files::publish::PublishTarget;
use tenure_work::publish::history;

use crate::{Caller, Handle, Service};

impl Handle<History> for Service {
    async fn handle(&self, request: History, caller: &Caller) -> Result<Manifests> {
        let keeper = self.locks(caller).await?;
        let publish_target = PublishTarget::new(&request.target, "history")?;
        history(&keeper, &publish_target).await.map(Manifests::new)
    }
}
