//! Deletes an issue.

use tenure::Result;
use tenure_api::board::{DeleteIssue, DeletedIssues};

use crate::{Caller, Handle, Service};

impl Handle<DeleteIssue> for Service {
    async fn handle(&self, request: DeleteIssue, caller: &Caller) -> Result<DeletedIssues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let deleted = call.work_on(request.issue, |board, id| {
            board.delete(id)?;
            Ok(id.clone())
        });
        let (deleted, next) = (vec![deleted.await?], None);
        Ok(DeletedIssues { deleted, next })
    }
}
