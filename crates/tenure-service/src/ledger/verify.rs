//! Finds what is wrong with a ledger, and repairs it if that is wanted.

use tenure::Result;
use tenure_api::ledger::{Verified, Verify};
use tenure_ledger::Confirmed;

use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

impl Handle<Verify> for Service {
    async fn handle(&self, request: Verify, caller: &Caller) -> Result<Verified> {
        let ledger = super::open(&request.directory, caller)?;
        let verify = move || match (request.repair, request.confirmed) {
            (false, _) => ledger.verify(),
            (true, false) => ledger.repair(Confirmed::No),
            (true, true) => ledger.repair(Confirmed::Yes),
        };
        blocking(caller, verify).await
    }
}
