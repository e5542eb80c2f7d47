//! Acquire and upgrade, as async tasks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tenure_core::decide::Wait;
use tenure_core::poison::lock;
use tenure_core::{Error, Lease, Request, Resource, Result, Token, UpgradeRequest};

use super::{FileStore, HeldLease, over, upgrading};
use crate::hold::{self, Hold};
use crate::interrupt::Interrupt;
use crate::kernel_wait::KernelWait;
use crate::local_queue::QueueOccupied;
use crate::record_author::RecordAuthor;

impl FileStore {
    pub(super) async fn acquire_as_task(&self, request: &Request) -> Result<Option<Lease>> {
        let hold = match self.try_hold(request)? {
            Ok(hold) => hold,
            Err(_) if request.wait == Wait::No => return Ok(None),
            Err(author) => hold::hold(&self.queues, request.mode, author).await?,
        };
        Ok(Some(self.add_lease(hold)))
    }

    fn try_hold(&self, request: &Request) -> Result<Result<Hold, RecordAuthor>> {
        if request.capacity.is_some() {
            return Err(self.cannot_count(&request.resource));
        }
        let path: Arc<Path> = self.path_of(&request.resource).into();
        let author = RecordAuthor::new(&self.record_context, request.clone(), &path)?;
        match self.queues.enter(&path) {
            Ok(idle) => {
                let file = idle.map(|idle| idle.file);
                hold::try_hold(&self.queues, file, request.mode, author)
            }
            Err(QueueOccupied) => Ok(Err(author)),
        }
    }

    fn cannot_count(&self, resource: &Resource) -> Error {
        Error::configuration(
            format!(
                "{} cannot hold {resource} for several at once: the kernel counts no holders",
                self.record_context.url()
            ),
            "use a store that can count, such as --store sqlite:PATH",
        )
    }

    fn add_lease(&self, hold: Hold) -> Lease {
        let lease = hold.lease();
        let held = Arc::new(HeldLease::new(hold));
        lock(&self.held).insert(lease.lease.clone(), held);
        lease
    }

    pub(super) async fn upgrade_as_task(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        let lease = &request.lease;
        let token = self.with_hold(lease, Hold::try_upgrade)?;
        if token.is_some() || request.wait == Wait::No {
            return Ok(token);
        }
        let held = self.held_lease(lease)?;
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
        let work = move |interrupt: &mut Interrupt| match lock(&held.hold).as_mut() {
            Some(hold) => hold.wait_upgrade(interrupt),
            None => Err(gone),
        };
        let wait = waiting.wait.insert(KernelWait::start(work)?);
        let upgraded = wait.await??;
        let ended = || Error::Internal("a wait without a deadline ended without a lock".into());
        upgraded.map(Some).ok_or_else(ended)
    }
}

/// Restores the lease when the wait for its upgrade is dropped.
struct Upgrading {
    held: Arc<HeldLease>,
    before: Token,
    wait: Option<KernelWait<Result<Option<Token>>>>,
}

impl Drop for Upgrading {
    fn drop(&mut self) {
        let given_up = self.wait.as_mut().and_then(KernelWait::stop);
        if let Some(Ok(Ok(Some(_)))) = given_up
            && let Some(hold) = lock(&self.held.hold).as_mut()
        {
            // The upgrade was granted in the instant it was given up. If undoing fails, the lease
            // is stronger than its owner knows, which is harmless.
            let _ = hold.undo_upgrade(self.before);
        }
        self.held.upgrading.store(false, Ordering::SeqCst);
    }
}
