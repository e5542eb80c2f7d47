//! Claim, renew, release and reap: each is one request in the append queue.

use std::time::Duration;

use tenure_api::ledger::Claim;
use tenure_core::{Error, Result};

use super::append::Appended;
use super::decide::ClaimRequest;
use super::{Ledger, names::Form};
use crate::held_claims::{ClaimToken, Node};

impl Ledger {
    /// Claims a node, for as long as `ttl` or the ledger says. Exactly one of several owners that
    /// ask wins.
    ///
    /// # Errors
    ///
    /// [`Claimed`](tenure_core::error::Claimed) if another owner has it; a conflict if this owner
    /// has it already.
    pub fn claim(&self, node: &Node, ttl: Option<Duration>) -> Result<Claim> {
        let ttl = self.ttl(ttl)?;
        one(self.submit(self.about_claims(ClaimRequest::Claim(node.clone(), ttl)))?)
    }

    /// Extends a claim: its time starts again now, and it keeps its token.
    pub fn renew(&self, token: &ClaimToken, ttl: Option<Duration>) -> Result<Claim> {
        let ttl = self.ttl(ttl)?;
        one(self.submit(self.about_claims(ClaimRequest::Renew(token.clone(), ttl)))?)
    }

    /// Ends a claim of this owner, and returns it.
    pub fn release(&self, node: &Node) -> Result<Claim> {
        one(self.submit(self.about_claims(ClaimRequest::Release(node.clone())))?)
    }

    /// Ends all claims that are over, and returns them. Also removes files of claims that other
    /// programs left, once those claims are over.
    pub fn reap(&self) -> Result<Vec<Claim>> {
        let mut all = Vec::new();
        loop {
            let reaped = self.submit(self.about_claims(ClaimRequest::Reap))?.claims;
            if reaped.is_empty() {
                break;
            }
            all.extend(reaped);
        }
        self.remove_foreign_claims()?;
        Ok(all)
    }

    /// Returns all claims that were neither released nor reaped, in the order of nodes, without a
    /// lock.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        if self.names.form == Form::Af {
            return Err(Error::BadInput(format!(
                "{} is a ledger of another form (000001.json): the claims in it are not read",
                self.names.ledger().display()
            )));
        }
        let state = self.state()?;
        let claims = state.claims.iter().cloned().collect();
        self.remember(Some(state));
        Ok(claims)
    }

    /// Returns the time by which claims end: the clock, or the time of the newest claim event if
    /// that is later.
    pub fn time(&self) -> Result<tenure_core::Timestamp> {
        let state = self.state()?;
        let now = state.claims.time((self.now)());
        self.remember(Some(state));
        Ok(now)
    }
}

fn one(answer: Appended) -> Result<Claim> {
    let mut claims = answer.claims.into_iter();
    claims
        .next()
        .ok_or_else(|| Error::Internal("a claim is not in its answer".into()))
}
