//! The events of a board: past ones, and new ones as they come. Reading them takes no lock.

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
    /// The length of the log when it was last read, in bytes.
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
    /// Returns the events since the last call. The first call returns all at once; later ones wait
    /// for an event, and return none if none comes within `limit`. Blocks the thread.
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
