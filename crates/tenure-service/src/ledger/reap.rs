//! Ends all claims whose time is over.

use tenure::Result;
use tenure_api::ledger::{ClaimState, ListedClaim, Reap, Reaped};

use crate::{Caller, Handle, Service};

impl Handle<Reap> for Service {
    async fn handle(&self, request: Reap, caller: &Caller) -> Result<Reaped> {
        let ledger = self.ledger(&request.directory, request.wait, None, caller)?;
        let claims = ledger.wait(|ledger| ledger.reap()).await?.into_iter();
        let state = ClaimState::Expired;
        let reaped = claims.map(|claim| ListedClaim { claim, state }).collect();
        Ok(Reaped { reaped, next: None })
    }
}
