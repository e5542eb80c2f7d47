//! Gives the claim of an issue more time.

use tenure::Result;
use tenure_api::board::{Issues, RenewIssue};

use crate::{Caller, Handle, Service};

impl Handle<RenewIssue> for Service {
    async fn handle(&self, request: RenewIssue, caller: &Caller) -> Result<Issues> {
        let (token, ttl) = (request.token, request.ttl.map(|ttl| ttl.0));
        let call = self.on_board_to_claim(request.board.as_deref(), None, ttl, caller)?;
        let renewed = call.work_on(request.issue, move |board, id| board.renew(id, token, ttl));
        let renewed = renewed.await?;
        call.remember_claim(&renewed);
        Ok(Issues::one(renewed.shown()))
    }
}
