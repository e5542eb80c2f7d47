//! Reads what happened.

use std::time::Duration;

use tenure::Result;
use tenure_api::board::{BoardEvents, ReadBoardEvents};

use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

impl Handle<ReadBoardEvents> for Service {
    async fn handle(&self, request: ReadBoardEvents, caller: &Caller) -> Result<BoardEvents> {
        let mut following = self.follow_board_events(request)?;
        let events = blocking(caller, move || following.next(Duration::ZERO)).await?;
        let next = None;
        Ok(BoardEvents { events, next })
    }
}
