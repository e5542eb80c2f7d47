//! Acquire and upgrade, as async tasks.

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use tenure_core::decide::Wait;
use tenure_core::internal::lock;
use tenure_core::{Error, Lease, Request, Resource, Result, Token, UpgradeRequest};

use super::{FileStore, HeldLease, Upgrade, over, upgrading};
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
            "use a store that can count, such as {.store} sqlite:PATH",
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
        let held = self.at_rest(lease).await?;
        let token = self.with_hold(lease, Hold::try_upgrade)?;
        if token.is_some() || request.wait == Wait::No {
            return Ok(token);
        }
        let before = self.with_hold(lease, |hold| Ok(hold.token()))?;
        let mut upgrade = WaitingUpgrade::begin(&held, before).ok_or_else(|| upgrading(lease))?;
        let _given_up = GivenUp(held);
        let gone = over(lease);
        let work = move |interrupt: &mut Interrupt| {
            let upgraded = match lock(&upgrade.held.hold).as_mut() {
                Some(hold) => hold.wait_upgrade(interrupt),
                None => Err(gone),
            };
            upgrade.is_untold = matches!(upgraded, Ok(Some(_)));
            (upgrade, upgraded)
        };
        let (mut upgrade, upgraded) = KernelWait::start(work)?.await?;
        upgrade.is_untold = false;
        let ended = || Error::Internal("a wait without a deadline ended without a lock".into());
        upgraded?.map(Some).ok_or_else(ended)
    }
}

/// An upgrade that waits, or whose grant is on its way to the caller. Dropping it ends the wait,
/// and undoes a grant that the caller did not learn of.
struct WaitingUpgrade {
    held: Arc<HeldLease>,
    before: Token,
    is_untold: bool,
}

impl WaitingUpgrade {
    /// Returns `None` if another upgrade of this lease waits.
    fn begin(held: &Arc<HeldLease>, before: Token) -> Option<Self> {
        let mut upgrade = lock(&held.upgrade);
        if !matches!(*upgrade, Upgrade::None) {
            return None;
        }
        *upgrade = Upgrade::Waits;
        Some(Self {
            held: Arc::clone(held),
            before,
            is_untold: false,
        })
    }
}

impl Drop for WaitingUpgrade {
    fn drop(&mut self) {
        if self.is_untold
            && let Some(hold) = lock(&self.held.hold).as_mut()
        {
            // If undoing fails, the lease is stronger than its owner knows, which is harmless.
            let _ = hold.undo_upgrade(self.before);
        }
        let upgrade = std::mem::take(&mut *lock(&self.held.upgrade));
        if let Upgrade::Ends(wakers) = upgrade {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// Marks an upgrade as given up when its future is dropped. Its thread may still work; the next
/// call on the lease waits for that.
struct GivenUp(Arc<HeldLease>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        let mut upgrade = lock(&self.0.upgrade);
        if matches!(*upgrade, Upgrade::Waits) {
            *upgrade = Upgrade::Ends(Vec::new());
        }
    }
}
