//! Claims a node, or renews a claim that is named by its token.

use tenure::Result;
use tenure_api::ledger::{ClaimNode, Claims, ListedClaim};
use tenure_ledger::{ClaimToken, Node};
use tenure_work::agents::claim_notes::ClaimedIn;

use crate::{Caller, Handle, Service};

impl Handle<ClaimNode> for Service {
    async fn handle(&self, request: ClaimNode, caller: &Caller) -> Result<Claims> {
        let ttl = request.ttl.map(|ttl| ttl.0);
        let ledger = self.ledger(&request.directory, request.wait, ttl, caller)?;
        let claim = if request.node.contains('#') {
            let token: ClaimToken = request.node.parse()?;
            ledger.wait(move |ledger| ledger.renew(&token, ttl)).await?
        } else {
            let node: Node = request.node.parse()?;
            ledger.wait(move |ledger| ledger.claim(&node, ttl)).await?
        };
        let place = (ClaimedIn::Ledger, request.directory.as_path());
        let noted = (claim.node.as_str(), claim.token, claim.expires_at);
        self.remember_claim(place, noted, caller).await;
        let now = claim.acquired_at;
        Ok(Claims::one(ListedClaim::at(claim, now)))
    }
}
