//! Taking locks, and upgrading them, as a task.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tenure_core::{Error, Lease, LeaseId, Request, Resource, Result, Token};

use super::{FileStore, Held, over, upgrading};
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
        if request.capacity.is_some() {
            return Err(self.cannot_count(&request.resource));
        }
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

    fn cannot_count(&self, resource: &Resource) -> Error {
        Error::Configuration {
            problem: format!(
                "{} cannot hold {resource} for several at once: the kernel counts no holders",
                self.desk.url()
            ),
            remedy: "use a store that can count, such as --store sqlite:PATH".into(),
        }
    }

    fn keep(&self, hold: Hold) -> Lease {
        let lease = hold.lease();
        let held = Arc::new(Held::new(hold));
        self.held().insert(lease.lease.clone(), held);
        lease
    }

    pub(super) async fn upgrade_as_task(&self, lease: &LeaseId) -> Result<Token> {
        if let Some(token) = self.with_hold(lease, Hold::try_upgrade)? {
            return Ok(token);
        }
        let held = self.held_as(lease)?;
        let before = self.with_hold(lease, |hold| Ok(hold.token()))?;
        if held.upgrading.swap(true, Ordering::SeqCst) {
            return Err(upgrading(lease));
        }
        let mut waiting = Upgrading {
            held: held.clone(),
            before,
            wait: None,
        };
        let gone = over(lease);
        let work = move |interrupt: &mut Interrupt| match held.hold().as_mut() {
            Some(hold) => hold.wait_upgrade(interrupt),
            None => Err(gone),
        };
        let wait = waiting.wait.insert(KernelWait::start(work)?);
        let upgraded = wait.await??;
        let ended = || Error::Internal("a wait without a deadline ended without a lock".into());
        upgraded.ok_or_else(ended)
    }
}

/// Leaves all as before when the wait for an upgrade is given up.
struct Upgrading {
    held: Arc<Held>,
    before: Token,
    wait: Option<KernelWait<Result<Option<Token>>>>,
}

impl Drop for Upgrading {
    fn drop(&mut self) {
        let given_up = self.wait.as_mut().and_then(KernelWait::stop);
        if let Some(Ok(Ok(Some(_)))) = given_up
            && let Some(hold) = self.held.hold().as_mut()
        {
            // Granted in the instant it was given up. If undoing fails, the lease is
            // stronger than its owner knows, which hurts nobody.
            let _ = hold.undo_upgrade(self.before);
        }
        self.held.upgrading.store(false, Ordering::SeqCst);
    }
}
