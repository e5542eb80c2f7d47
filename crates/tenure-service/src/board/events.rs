//! The events of a board: those that are there, and those to come. Nothing is locked to read them.

use std::time::Duration;

use tenure::Result;
use tenure_api::board::{BoardEvent, BoardEvents, ReadBoardEvents};
use tenure_board::Board;
use tenure_board::log::EventCursor;

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

/// The events of a board, from the first that was asked for.
pub struct BoardFollower {
    board: Board,
    cursor: EventCursor,
    /// The last line that was returned.
    last: u64,
    /// How long the log was when it was read last.
    length: Option<u64>,
}

impl Service {
    /// Begins to follow the events of a board.
    pub fn follow_board_events(&self, request: ReadBoardEvents) -> Result<BoardFollower> {
        let directory = self.place_of_board(request.board.as_deref())?;
        Ok(BoardFollower {
            board: self.open_board(&directory)?,
            cursor: EventCursor::default(),
            last: request.after,
            length: None,
        })
    }
}

impl BoardFollower {
    /// Returns the events that came since the last call: at the first call all that are there,
    /// later none if none comes within `limit`. It blocks its thread.
    pub fn next(&mut self, limit: Duration) -> Result<Vec<BoardEvent>> {
        if let Some(length) = self.length
            && !self.board.wait_for_events(length, limit)?
        {
            return Ok(Vec::new());
        }
        self.length = Some(self.board.events_length()?);
        let events = self.board.events_since(&mut self.cursor, self.last)?;
        self.last = events.last().map_or(self.last, |event| event.line);
        Ok(events)
    }
}
