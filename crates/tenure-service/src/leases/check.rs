//! Asks whether a token is good.

use tenure::{Error, Result};
use tenure_api::leases::{Check, Checked};

use crate::store_identity::is_there;
use crate::{Caller, Handle, Service};

impl Handle<Check> for Service {
    async fn handle(&self, request: Check, caller: &Caller) -> Result<Checked> {
        let Check { resource, token } = request;
        // Without a store nothing is known of a token, and a question makes no store.
        if !is_there(&self.located().url) {
            let problem = format!("there is no store at {}", self.shown_store());
            return Err(Error::NotFound(problem));
        }
        let keeper = self.locks(caller).await?;
        keeper.check(&resource, token).await?;
        let good = true;
        Ok(Checked {
            resource,
            token,
            good,
        })
    }
}
