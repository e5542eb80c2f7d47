//! Makes a ledger.

use tenure::Result;
use tenure_api::ledger::{Init, Made};
use tenure_ledger::Ledger;

use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

impl Handle<Init> for Service {
    async fn handle(&self, request: Init, caller: &Caller) -> Result<Made> {
        let ledger = request.directory.display().to_string();
        let claim_ttl = request.claim_ttl.map(|ttl| ttl.0);
        blocking(caller, move || Ledger::init(&request.directory, claim_ttl)).await?;
        Ok(Made { ledger })
    }
}
