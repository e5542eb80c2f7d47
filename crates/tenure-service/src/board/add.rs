//! Creates an issue.

use tenure::Result;
use tenure_api::board::{AddIssue, Issues};

use crate::{Caller, Handle, Service};

impl Handle<AddIssue> for Service {
    async fn handle(&self, request: AddIssue, caller: &Caller) -> Result<Issues> {
        let AddIssue { board, issue } = request;
        let call = self.on_board_or_make(board.as_deref(), caller).await?;
        let id = issue.id.clone();
        let created = call.work(id.as_ref(), |board| board.create(issue)).await?;
        Ok(Issues::one(created.shown()))
    }
}
