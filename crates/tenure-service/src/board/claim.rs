//! Claims an issue.

use tenure::Result;
use tenure_api::board::{ClaimIssue, Issues};

use crate::{Caller, Handle, Service};

impl Handle<ClaimIssue> for Service {
    async fn handle(&self, request: ClaimIssue, caller: &Caller) -> Result<Issues> {
        let ttl = request.ttl.map(|ttl| ttl.0);
        let call = self.on_board_to_claim(request.board.as_deref(), None, ttl, caller)?;
        let claimed = call.work_on(request.issue, move |board, id| board.claim(id, ttl));
        let claimed = claimed.await?;
        call.remember_claim(&claimed);
        Ok(Issues::one(claimed.shown()))
    }
}
