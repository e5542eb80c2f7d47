//! Looks at every file of a board, and repairs what needs no person.

use tenure::Result;
use tenure_api::board::{VerifiedBoard, VerifyBoard};
use tenure_board::Board;

use crate::{Caller, Handle, Service};

impl Handle<VerifyBoard> for Service {
    async fn handle(&self, request: VerifyBoard, caller: &Caller) -> Result<VerifiedBoard> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let work = match request.repair {
            true => Board::repair,
            false => Board::verify,
        };
        call.work(None, work).await
    }
}
