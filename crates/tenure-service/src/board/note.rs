//! Leaves a note for the next owner of an issue.

use tenure::Result;
use tenure_api::board::{AddNote, Issues};

use crate::{Caller, Handle, Service};

impl Handle<AddNote> for Service {
    async fn handle(&self, request: AddNote, caller: &Caller) -> Result<Issues> {
        let AddNote { board, issue, text } = request;
        let call = self.on_board(board.as_deref(), caller)?;
        let noted = call.work_on(issue, move |board, id| board.note(id, &text));
        Ok(Issues::one(noted.await?.shown()))
    }
}
