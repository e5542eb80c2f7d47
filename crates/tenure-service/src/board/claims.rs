//! Claims of issues: made, renewed, ended.

use tenure::Result;
use tenure_api::board::{ClaimIssue, FinishIssue, Issues, ReleaseIssue, RenewIssue};

use crate::{Caller, Handle, Service};

impl Handle<ClaimIssue> for Service {
    async fn handle(&self, request: ClaimIssue, caller: &Caller) -> Result<Issues> {
        let ttl = request.ttl.map(|ttl| ttl.0);
        let call = self.on_board_to_claim(request.board.as_deref(), None, ttl, caller)?;
        let claimed = call.work_on(request.issue, move |board, id| board.claim(id, ttl));
        let claimed = claimed.await?;
        call.remember_claim(&claimed).await;
        Ok(Issues::one(claimed.shown()))
    }
}

impl Handle<RenewIssue> for Service {
    async fn handle(&self, request: RenewIssue, caller: &Caller) -> Result<Issues> {
        let (token, ttl) = (request.token, request.ttl.map(|ttl| ttl.0));
        let call = self.on_board_to_claim(request.board.as_deref(), None, ttl, caller)?;
        let renewed = call.work_on(request.issue, move |board, id| board.renew(id, token, ttl));
        let renewed = renewed.await?;
        call.remember_claim(&renewed).await;
        Ok(Issues::one(renewed.shown()))
    }
}

impl Handle<ReleaseIssue> for Service {
    async fn handle(&self, request: ReleaseIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let released = call.work_on(request.issue, move |board, id| {
            board.release(id, request.token)
        });
        let released = released.await?;
        call.forget_claim(&released.id).await;
        Ok(Issues::one(released.shown()))
    }
}

impl Handle<FinishIssue> for Service {
    async fn handle(&self, request: FinishIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let done = call.work_on(request.issue, move |board, id| {
            board.done(id, request.token)
        });
        let done = done.await?;
        call.forget_claim(&done.id).await;
        Ok(Issues::one(done.shown()))
    }
}
