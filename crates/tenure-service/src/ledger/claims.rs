//! The operations on claims of nodes: made or renewed, ended, listed, reaped.

use tenure::Result;
use tenure_api::ledger::{
    ClaimNode, ClaimState, Claims, ListClaims, ListedClaim, Reap, Reaped, ReleaseNode,
};
use tenure_ledger::{ClaimToken, Node};
use tenure_work::agents::claim_notes::ClaimedIn;

use super::open;
use crate::waiting::blocking;
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

impl Handle<ListClaims> for Service {
    async fn handle(&self, request: ListClaims, caller: &Caller) -> Result<Claims> {
        let ledger = open(&request.directory, caller)?;
        let listed = move || -> Result<Claims> {
            let claims = ledger.claims()?.into_iter();
            let now = ledger.time()?;
            let claims = claims.map(|claim| ListedClaim::at(claim, now)).collect();
            Ok(Claims { claims, next: None })
        };
        blocking(caller, listed).await
    }
}

impl Handle<Reap> for Service {
    async fn handle(&self, request: Reap, caller: &Caller) -> Result<Reaped> {
        let ledger = self.ledger(&request.directory, request.wait, None, caller)?;
        let claims = ledger.wait(|ledger| ledger.reap()).await?.into_iter();
        let state = ClaimState::Expired;
        let reaped = claims.map(|claim| ListedClaim { claim, state }).collect();
        Ok(Reaped { reaped, next: None })
    }
}
