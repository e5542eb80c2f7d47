//! Ends a claim.

use tenure::Result;
use tenure_api::ledger::{ClaimState, Claims, ListedClaim, ReleaseNode};
use tenure_ledger::Node;
use tenure_work::agents::claim_notes::ClaimedIn;

use crate::{Caller, Handle, Service};

impl Handle<ReleaseNode> for Service {
    async fn handle(&self, request: ReleaseNode, caller: &Caller) -> Result<Claims> {
        let node: Node = request.node.parse()?;
        let ledger = self.ledger(&request.directory, request.wait, None, caller)?;
        let claim = ledger.wait(move |ledger| ledger.release(&node)).await?;
        let place = (ClaimedIn::Ledger, request.directory.as_path());
        self.forget_claim(place, &claim.node, caller).await;
        let state = ClaimState::Released;
        Ok(Claims::one(ListedClaim { claim, state }))
    }
}
