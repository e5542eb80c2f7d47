//! Makes a board.

use tenure::Result;
use tenure_api::board::{BoardPlace, InitBoard};

use super::call::make;
use crate::{Caller, Handle, Service};

impl Handle<InitBoard> for Service {
    async fn handle(&self, request: InitBoard, caller: &Caller) -> Result<BoardPlace> {
        let directory = self.place_of_board(request.board.as_deref())?;
        let board = directory.display().to_string();
        make(directory, caller).await?;
        Ok(BoardPlace { board })
    }
}
