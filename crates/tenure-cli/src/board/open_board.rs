//! Opens the board of a command, with its place, its settings, its owner and its waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::{Resource, Result, SessionOptions};
use tenure_board::Board;
use tenure_board::issue::IssueId;
use tenure_lockfile::resource_of;

use super::failure::{about, unopened};
use crate::cli::BoardTerms;
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::report::Failure;
use crate::waiting::{FileWaits, WaitedFor};

/// A board that is open for one command.
pub struct OpenBoard {
    board: Board,
    waits: FileWaits,
}

/// Returns where the board is.
pub fn directory(context: &Context, asked: Option<&Path>) -> Result<PathBuf> {
    match asked {
        Some(asked) => Ok(asked.to_owned()),
        None => context.board_directory(),
    }
}

/// Opens a board that is only looked at.
pub fn to_read(asked: Option<&Path>) -> Result<Board, Failure> {
    let context = Context::for_board()?;
    let wait = context.settings(WAIT_DEFAULT).wait;
    let directory = directory(&context, asked)?;
    let board = Board::open(&directory, wait);
    let board = board.map_err(|error| unopened(error, asked, wait))?;
    Ok(finished(board, &context))
}

/// Opens a board in the name of an owner, who may wait for an issue for `wait` and claim it for `ttl`, and returns how long it waits
/// for locks.
pub fn for_owner(
    context: &Context,
    terms: &BoardTerms,
    wait: Option<Duration>,
    ttl: Option<Duration>,
) -> Result<(Board, tenure::Asker, Duration), Failure> {
    let settings = context.settings(WAIT_DEFAULT);
    let (owner, limit) = context.owner_and_limit(terms.owner.clone(), None, WAIT_DEFAULT, ttl)?;
    let automated = &settings.automated;
    automated.check_wait(&owner, wait.unwrap_or_default())?;
    let limit = limit.whole();
    let is_automated = settings.automated.covers(&owner);
    let asker = SessionOptions::new(owner).with_command(context.own_command());
    let asker = asker.asker();
    let directory = directory(context, terms.dir.as_deref())?;
    let board = Board::for_asker(&directory, limit, asker.clone());
    let board = board.map_err(|error| unopened(error, terms.dir.as_deref(), limit))?;
    let mut board = finished(board, context);
    if is_automated {
        board = board.as_automated();
    }
    Ok((board, asker, limit))
}

fn finished(board: Board, context: &Context) -> Board {
    let settings = context.settings(WAIT_DEFAULT);
    let board = board.with_messages(word).with_retry(settings.retry);
    match settings.trust_flock {
        true => board.trusting_the_file_system(),
        false => board,
    }
}

impl OpenBoard {
    pub fn open(terms: &BoardTerms) -> Result<Self, Failure> {
        Self::open_to_claim(terms, None, None)
    }

    /// Opens it for a command that only reads, which a signal ends as long as it does.
    pub fn open_to_read(dir: Option<&Path>) -> Result<Self, Failure> {
        let terms = BoardTerms {
            dir: dir.map(Path::to_owned),
            owner: None,
        };
        let mut opened = Self::open(&terms)?;
        let told = opened.waits.on_locked_to_read();
        opened.board = opened.board.on_locked(told);
        Ok(opened)
    }

    /// The same for a claim that is waited for for `wait` and lasts for `ttl`, if its owner may have both.
    pub fn open_to_claim(
        terms: &BoardTerms,
        wait: Option<Duration>,
        ttl: Option<Duration>,
    ) -> Result<Self, Failure> {
        Self::with(&Context::for_board()?, terms, wait, ttl)
    }

    fn with(
        context: &Context,
        terms: &BoardTerms,
        wait: Option<Duration>,
        ttl: Option<Duration>,
    ) -> Result<Self, Failure> {
        let (board, asker, limit) = for_owner(context, terms, wait, ttl)?;
        let waits = FileWaits::new(&asker, limit)?;
        let board = board.on_locked(waits.on_locked());
        let board = board.cancelled_by(waits.cancel());
        Ok(Self { board, waits })
    }

    /// Does the same, and makes a board in its usual place if there is none.
    pub fn open_or_make(terms: &BoardTerms) -> Result<Self, Failure> {
        let context = Context::for_board()?;
        if terms.dir.is_none() {
            let directory = directory(&context, None)?;
            if !directory.join("index.json").exists() {
                Board::init(&directory)?;
            }
        }
        Self::with(&context, terms, None, None)
    }

    /// Does something that waits for locks. The wait is reported to people, and signals end it.
    pub fn wait<T>(
        &self,
        id: Option<&IssueId>,
        work: impl FnOnce(&Board) -> Result<T>,
    ) -> Result<T, Failure> {
        let work = || work(&self.board);
        let done = self.waits.wait(self.waited_for(id), work);
        done.map_err(|error| self.about(error))
    }

    /// Tries until `work` finds something: after each time that it does not, `left` says how long to wait for an
    /// event. Signals end it.
    pub fn wait_until<T, E>(
        &self,
        work: impl Fn(&Board) -> Result<Result<T, E>>,
        mut left: impl FnMut(E) -> Result<Duration>,
    ) -> Result<T, Failure> {
        let mut found = || loop {
            let length = self.board.events_length()?;
            let work = || work(&self.board);
            let tried = self.waits.wait_in_turn(self.waited_for(None), work);
            let nothing = match tried? {
                Ok(found) => return Ok(found),
                Err(nothing) => nothing,
            };
            let wait = || self.board.wait_for_events(length, left(nothing)?);
            self.waits.idle_in_turn(self.resource(), wait)?;
        };
        let found = found();
        self.waits.end();
        found.map_err(|error| self.about(error))
    }

    /// Returns the failure of a command on this board.
    pub fn about(&self, error: tenure::Error) -> Failure {
        about(error, self.limit())
    }

    pub fn board(&self) -> &Board {
        &self.board
    }

    fn waited_for(&self, id: Option<&IssueId>) -> WaitedFor {
        WaitedFor {
            resource: id.map_or_else(|| self.resource(), IssueId::resource),
            files: self.board.lock_files(id),
            inner_lock: None,
        }
    }

    fn limit(&self) -> Duration {
        self.waits.limit()
    }

    fn resource(&self) -> Resource {
        resource_of(self.board.directory())
    }
}

/// A board that a thread uses while another waits.
pub type SharedBoard = Arc<Board>;
