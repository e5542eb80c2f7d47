//! Ends the claim of an issue.

use tenure::Result;
use tenure_api::board::{Issues, ReleaseIssue};

use crate::{Caller, Handle, Service};

impl Handle<ReleaseIssue> for Service {
    async fn handle(&self, request: ReleaseIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let released = call.work_on(request.issue, move |board, id| {
            board.release(id, request.token)
        });
        let released = released.await?;
        call.forget_claim(&released.id);
        Ok(Issues::one(released.shown()))
    }
}
