//! Taking locks, and upgrading them, as a task.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::{Error, Lease, LeaseId, Request, Result, Token};

use super::FileStore;
use crate::author::Author;
use crate::hold::{self, Hold};
use crate::interrupt::Interrupt;
use crate::kernel_wait::KernelWait;
use crate::line::Waited;

impl FileStore {
    pub(super) fn try_acquire_now(&self, request: &Request) -> Result<Option<Lease>> {
        let hold = self.try_hold(request)?;
        Ok(hold.ok().map(|hold| self.keep(hold)))
    }

    pub(super) async fn acquire_as_task(&self, request: &Request) -> Result<Lease> {
        let hold = match self.try_hold(request)? {
            Ok(hold) => hold,
            Err(author) => hold::hold(&self.lines, request.mode, author).await?,
        };
        Ok(self.keep(hold))
    }

    fn try_hold(&self, request: &Request) -> Result<Result<Hold, Author>> {
        let path: Arc<Path> = self.path_of(&request.resource).into();
        let author = Author::new(&self.desk, request.clone(), &path)?;
        match self.lines.enter(&path) {
            Ok(kept) => {
                let file = kept.map(|kept| kept.file);
                hold::try_hold(&self.lines, file, request.mode, author)
            }
            Err(Waited) => Ok(Err(author)),
        }
    }

    fn keep(&self, hold: Hold) -> Lease {
        let lease = hold.lease();
        let hold = Arc::new(Mutex::new(hold));
        self.held().insert(lease.lease.clone(), hold);
        lease
    }

    pub(super) async fn upgrade_as_task(&self, lease: &LeaseId) -> Result<Token> {
        if let Some(token) = self.with_hold(lease, Hold::try_upgrade)? {
            return Ok(token);
        }
        let hold = self.hold_of(lease)?;
        let before = lock(&hold).token();
        let waiting = hold.clone();
        let work = move |interrupt: &mut Interrupt| lock(&waiting).wait_upgrade(interrupt);
        let mut upgrading = Upgrading {
            wait: KernelWait::start(work)?,
            hold,
            before,
        };
        let upgraded = (&mut upgrading.wait).await??;
        let ended = || Error::Internal("a wait without a deadline ended without a lock".into());
        upgraded.ok_or_else(ended)
    }
}

fn lock(hold: &Mutex<Hold>) -> MutexGuard<'_, Hold> {
    // A hold knows what it holds at every step, whoever panicked.
    hold.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves all as before when the wait for an upgrade is given up.
struct Upgrading {
    wait: KernelWait<Result<Option<Token>>>,
    hold: Arc<Mutex<Hold>>,
    before: Token,
}

impl Drop for Upgrading {
    fn drop(&mut self) {
        if let Some(Ok(Ok(Some(_)))) = self.wait.stop() {
            // Granted in the instant it was given up. If undoing fails, the lease is
            // stronger than its owner knows, which hurts nobody.
            let _ = lock(&self.hold).undo_upgrade(self.before);
        }
    }
}
