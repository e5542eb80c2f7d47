//! A board that is open for one call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::{Error, Mode, Resource, Result};
use tenure_api::board::Issues;
use tenure_board::issue::{Issue, IssueId};
use tenure_board::{Board, Cancel, FileCaller};
use tenure_core::internal::lock;
use tenure_lockfile::resource_of;
use tenure_work::agents::claim_notes::ClaimedIn;

use crate::waiting::{FileWait, WaitTeller, blocking, for_files};
use crate::{Caller, Service, WAIT_DEFAULT};

/// The number of boards that are kept open.
const OPEN_MAX: usize = 100;

/// A board that is open for one call.
pub(super) struct BoardCall<'a> {
    service: &'a Service,
    caller: &'a Caller,
    board: Board,
    limit: Duration,
}

impl Service {
    /// Opens a board for a call that waits for nothing but the locks of the board.
    pub(super) fn on_board<'a>(
        &'a self,
        asked: Option<&Path>,
        caller: &'a Caller,
    ) -> Result<BoardCall<'a>> {
        self.on_board_to_claim(asked, None, None, caller)
    }

    /// Opens a board for a call that waits for an issue for `wait` and claims it for `ttl`.
    pub(super) fn on_board_to_claim<'a>(
        &'a self,
        asked: Option<&Path>,
        wait: Option<Duration>,
        ttl: Option<Duration>,
        caller: &'a Caller,
    ) -> Result<BoardCall<'a>> {
        let limit = self.limit(caller, None, WAIT_DEFAULT, ttl)?.whole();
        let automated = self.automated(caller);
        automated.check_wait(caller.owner(), wait.unwrap_or_default())?;
        Ok(BoardCall {
            service: self,
            caller,
            board: self.open_board(&self.place_of_board(asked)?)?,
            limit,
        })
    }

    /// Opens a board for a call. In its usual place it is made if there is none.
    pub(super) async fn on_board_or_make<'a>(
        &'a self,
        asked: Option<&Path>,
        caller: &'a Caller,
    ) -> Result<BoardCall<'a>> {
        if asked.is_none() {
            let directory = self.board_directory()?;
            if !directory.join("index.json").exists() {
                make(directory, caller).await?;
            }
        }
        self.on_board(asked, caller)
    }

    /// Returns the directory of a board: the one asked for, else the usual one.
    pub(super) fn place_of_board(&self, asked: Option<&Path>) -> Result<PathBuf> {
        match asked {
            Some(asked) => Ok(asked.to_owned()),
            None => self.board_directory(),
        }
    }

    /// Opens the board in a directory, or returns the one that is open.
    pub(super) fn open_board(&self, directory: &Path) -> Result<Board> {
        if let Some(board) = lock(&self.boards).get(directory) {
            return Ok(board.clone());
        }
        let config = &self.located().config;
        let board = Board::open(directory, self.default_wait(WAIT_DEFAULT))?;
        let mut board = board.with_retry(config.retry_policy());
        if config.trust_flock.unwrap_or(false) {
            board = board.trusting_the_file_system();
        }
        let mut boards = lock(&self.boards);
        if boards.len() >= OPEN_MAX {
            boards.clear();
        }
        boards.insert(directory.to_owned(), board.clone());
        Ok(board)
    }
}

impl BoardCall<'_> {
    /// Does work that waits for the locks of the board, and for that of an issue if one is named.
    /// It may run on another thread. The observer of the caller is told of the wait.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        issue: Option<&IssueId>,
        work: impl FnOnce(&Board) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let teller = WaitTeller::new(self.caller);
        let caller = self.service.file_caller(self.caller, self.limit, &teller);
        let wait = FileWait {
            files: self.board.lock_files(issue),
            mode: Mode::Write,
            limit: self.limit,
            session: caller.asker.session.clone(),
            with_node: false,
            inner_lock: None,
        };
        let board = self.for_caller(&caller);
        let done = for_files(&wait, &teller, move || work(&board)).await;
        let waited_for = || issue.map_or_else(|| self.resource(), IssueId::resource);
        done.map_err(|error| match error {
            Error::Interrupted { .. } => Error::interrupted(waited_for()),
            error => error,
        })
    }

    /// Does work on an issue, which waits for its lock.
    pub(super) async fn work_on<T: Send + 'static>(
        &self,
        id: IssueId,
        work: impl FnOnce(&Board, &IssueId) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let named = id.clone();
        self.work(Some(&named), move |board| work(board, &id)).await
    }

    /// Does work on an issue, which waits for its lock, and returns the issue as it is then.
    pub(super) async fn one_issue(
        &self,
        id: IssueId,
        work: impl FnOnce(&Board, &IssueId) -> Result<Issue> + Send + 'static,
    ) -> Result<Issues> {
        let issue = self.work_on(id, work).await?;
        Ok(Issues::one(issue.shown()))
    }

    /// Does work that waits for something other than locks. It may run on another thread.
    pub(super) async fn idle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Board) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let board = self.untold(self.caller.cancel().clone());
        blocking(self.caller, move || work(&board)).await
    }

    /// Returns the board for the caller, who is told of no wait. `cancel` ends its waits.
    pub(super) fn untold(&self, cancel: Cancel) -> Board {
        let mut caller = FileCaller::new(self.caller.asker(), self.limit);
        caller.is_automated = self.service.is_automated(self.caller);
        caller.cancel = cancel;
        self.for_caller(&caller)
    }

    fn for_caller(&self, caller: &FileCaller) -> Board {
        let observer = Arc::clone(self.caller.observer());
        let board = self.board.for_caller(caller);
        board.with_messages(move |text| observer.word(text))
    }

    /// Remembers the claim that a coding agent has just made or renewed, so that its hooks renew
    /// it.
    pub(super) async fn remember_claim(&self, issue: &Issue) {
        if let Some(claim) = &issue.claim {
            let claim = (issue.id.as_str(), claim.token, claim.expires_at);
            let (service, place) = (self.service, self.claimed_in());
            service.remember_claim(place, claim, self.caller).await;
        }
    }

    /// Forgets a claim that a coding agent has ended, so that its hooks do not renew it.
    pub(super) async fn forget_claim(&self, id: &IssueId) {
        let (service, place) = (self.service, self.claimed_in());
        service.forget_claim(place, id.as_str(), self.caller).await;
    }

    fn claimed_in(&self) -> (ClaimedIn, &Path) {
        (ClaimedIn::Board, self.board.directory())
    }

    /// Returns the board as a resource.
    pub(super) fn resource(&self) -> Resource {
        resource_of(self.board.directory())
    }
}

/// Makes a board, if there is none in the directory.
pub(super) async fn make(directory: PathBuf, caller: &Caller) -> Result<()> {
    blocking(caller, move || Board::init(&directory)).await
}
