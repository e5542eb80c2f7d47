//! Says that an issue is done.

use tenure::Result;
use tenure_api::board::{FinishIssue, Issues};

use crate::{Caller, Handle, Service};

impl Handle<FinishIssue> for Service {
    async fn handle(&self, request: FinishIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let done = call.work_on(request.issue, move |board, id| {
            board.done(id, request.token)
        });
        let done = done.await?;
        call.forget_claim(&done.id);
        Ok(Issues::one(done.shown()))
    }
}
