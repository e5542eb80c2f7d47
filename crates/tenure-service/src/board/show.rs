//! Shows an issue.

use tenure::Result;
use tenure_api::board::{Issues, ShowIssue};

use crate::{Caller, Handle, Service};

impl Handle<ShowIssue> for Service {
    async fn handle(&self, request: ShowIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let found = call.work_on(request.issue, |board, id| board.issue(id));
        Ok(Issues::one(found.await?.shown()))
    }
}
