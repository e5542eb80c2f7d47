//! A lock that is held, and the ways to get one: now, as a thread, as a task.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tenure_core::{Error, Lease, LockContext, Mode, Result, Token};
use tenure_os::cancel::{Cancel, Ended};

use crate::interrupt::Interrupt;
use crate::kernel_wait::KernelWait;
use crate::local_queue::LocalQueues;
use crate::lockfile::{self, Attempt, HeldLock, LockFile, RecordWriter};
use crate::record_author::RecordAuthor;

/// A lock held by this process. Dropping it releases the lock.
pub(crate) struct Hold {
    /// `Some` until the lock is released.
    held: Option<(LockFile, RecordAuthor)>,
    queues: Arc<LocalQueues>,
    locked: HeldLock,
    /// True if M was lost during an upgrade.
    lost: bool,
    /// True if a descriptor was given away, so that another process may keep this file open.
    shared: bool,
}

/// Takes the lock if it needs no wait. Uses `file` if it is given.
pub(crate) fn try_hold(
    queues: &Arc<LocalQueues>,
    file: Option<LockFile>,
    mode: Mode,
    mut author: RecordAuthor,
) -> Result<Result<Hold, RecordAuthor>> {
    let path = author.path().clone();
    let attempt = lockfile::try_acquire(&path, file, mode, &mut author);
    conclude(queues, attempt, author)
}

/// Blocks the thread until the lock is held, or the wait is over.
pub(crate) fn hold_until(
    queues: &Arc<LocalQueues>,
    mode: Mode,
    author: RecordAuthor,
    deadline: Instant,
    cancel: &Cancel,
) -> Result<Result<Hold, Ended>> {
    let ticket = queues.join(author.path());
    if let Err(ended) = ticket.wait_first(deadline, cancel) {
        return Ok(Err(ended));
    }
    let mut interrupt = Interrupt::new(Some(deadline), cancel);
    let hold = wait_first_in_line(queues, mode, author, &mut interrupt)?;
    Ok(hold.map_err(|_| interrupt.ended().unwrap_or(Ended::Deadline)))
}

/// Waits for the lock for as long as the future lives.
pub(crate) async fn hold(
    queues: &Arc<LocalQueues>,
    mode: Mode,
    author: RecordAuthor,
) -> Result<Hold> {
    let ticket = queues.join(author.path());
    ticket.first().await;
    let queues = queues.clone();
    let wait = move |interrupt: &mut Interrupt| {
        let held = wait_first_in_line(&queues, mode, author, interrupt);
        // If this future is dropped, the next in the queue moves up when this thread is done.
        drop(ticket);
        held
    };
    let held = KernelWait::start(wait)?.await??;
    held.map_err(|_| Error::Internal("a wait without a deadline ended without a lock".into()))
}

fn wait_first_in_line(
    queues: &Arc<LocalQueues>,
    mode: Mode,
    mut author: RecordAuthor,
    interrupt: &mut Interrupt,
) -> Result<Result<Hold, RecordAuthor>> {
    let path = author.path().clone();
    let file = queues.take_idle(&path).map(|idle| idle.file);
    let attempt = lockfile::wait_acquire(&path, file, mode, &mut author, interrupt);
    conclude(queues, attempt, author)
}

/// Shares the lock for a moment if it needs no wait. Uses `file` if it is given.
pub(crate) fn try_hold_briefly(
    queues: &Arc<LocalQueues>,
    file: Option<LockFile>,
    author: RecordAuthor,
) -> Result<Result<BriefHold, RecordAuthor>> {
    let attempt = lockfile::try_share_briefly(author.path(), file);
    let granted = granted(queues, attempt, &author)?;
    let Some((file, ())) = granted else {
        return Ok(Err(author));
    };
    Ok(Ok(BriefHold {
        held: Some((file, author)),
        queues: queues.clone(),
    }))
}

/// A shared lock without a record. Dropping it releases the lock.
pub(crate) struct BriefHold {
    /// `Some` until it is dropped.
    held: Option<(LockFile, RecordAuthor)>,
    queues: Arc<LocalQueues>,
}

impl Drop for BriefHold {
    fn drop(&mut self) {
        // In a forked child unlocking would unlock the parent; closing the file does not.
        if let Some((file, author)) = self.held.take().filter(|(file, _)| file.is_ours()) {
            match file.release_m() {
                Ok(()) => self.queues.keep(file, author),
                Err(_) => self.queues.forget(file.path()),
            }
        }
    }
}

/// Returns the file and what it holds. A file that holds nothing is kept open for the next request.
fn granted<T>(
    queues: &LocalQueues,
    attempt: Result<(LockFile, Option<T>)>,
    author: &RecordAuthor,
) -> Result<Option<(LockFile, T)>> {
    match attempt.inspect_err(|_| queues.forget(author.path()))? {
        (file, Some(locked)) => Ok(Some((file, locked))),
        (file, None) => {
            queues.keep(file, author.fresh_copy());
            Ok(None)
        }
    }
}

fn conclude(
    queues: &Arc<LocalQueues>,
    attempt: Result<Attempt>,
    mut author: RecordAuthor,
) -> Result<Result<Hold, RecordAuthor>> {
    let Some((file, locked)) = granted(queues, attempt, &author)? else {
        return Ok(Err(author));
    };
    author.mark_granted();
    Ok(Ok(Hold {
        held: Some((file, author)),
        queues: queues.clone(),
        locked,
        lost: false,
        shared: false,
    }))
}

impl Hold {
    /// Returns the lease as its record says.
    pub(crate) fn lease(&self) -> Lease {
        self.author().lease()
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        self.file().path()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.locked.mode
    }

    pub(crate) fn token(&self) -> Token {
        self.locked.token
    }

    /// Fails if the lock no longer protects anything: its path means another file by now, or
    /// another program took it.
    pub(crate) fn check(&self) -> Result<()> {
        let reason = if self.lost {
            "another program took its lock file during an upgrade"
        } else if !self.file().is_current()? {
            "its lock file was replaced or removed"
        } else {
            return Ok(());
        };
        Err(Error::lost(self.context(), reason))
    }

    /// Checks the lock and writes its record again with the current time.
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.check()?;
        let locked = self.locked;
        let (file, author) = self.parts();
        file.rewrite_record(locked, author)
    }

    /// Makes the lock exclusive. Returns `None` if there is a reader.
    pub(crate) fn try_upgrade(&mut self) -> Result<Option<Token>> {
        self.require_upgradeable()?;
        let locked = self.locked;
        let (file, author) = self.parts();
        let upgraded = file.try_upgrade(locked, author);
        self.conclude_upgrade(upgraded)
    }

    /// Waits until no reader is left. If interrupted, returns `None` and leaves the lock unchanged.
    pub(crate) fn wait_upgrade(&mut self, interrupt: &mut Interrupt) -> Result<Option<Token>> {
        self.require_upgradeable()?;
        let locked = self.locked;
        let (file, author) = self.parts();
        let upgraded = file.wait_upgrade(locked, author, interrupt);
        self.conclude_upgrade(upgraded)
    }

    /// Makes an upgraded lock upgradeable again.
    pub(crate) fn downgrade(&mut self) -> Result<Mode> {
        if !self.locked.upgraded {
            return Err(self.conflict("a lease that was upgraded"));
        }
        let locked = self.locked;
        let (file, author) = self.parts();
        self.locked = file.downgrade(locked, author)?;
        Ok(self.locked.mode)
    }

    /// Undoes an upgrade that no caller learned of, including its token.
    pub(crate) fn undo_upgrade(&mut self, before: Token) -> Result<()> {
        let locked = self.locked;
        let (file, author) = self.parts();
        self.locked = file.undo_upgrade(locked, before, author)?;
        Ok(())
    }

    /// Returns another descriptor that keeps the lock held while it is open anywhere.
    pub(crate) fn descriptor(&mut self) -> Result<OwnedFd> {
        let descriptor = self.file().duplicate()?;
        self.shared = true;
        Ok(descriptor)
    }

    /// Releases the lock and returns whether that worked; dropping it releases silently. After this
    /// call the hold can only be dropped.
    pub(crate) fn release(&mut self) -> Result<()> {
        let Some((file, author)) = self.held.take() else {
            return Ok(());
        };
        if !file.is_ours() {
            // This is a forked child: unlocking would unlock the parent, closing does not.
            return Ok(());
        }
        let released = file.release();
        // An open file that a descendant may still have open is not used again: a later lock
        // through it would outlive this process.
        if self.shared || released.is_err() {
            self.queues.forget(file.path());
        } else {
            self.queues.keep(file, author);
        }
        released
    }

    fn conclude_upgrade(&mut self, upgraded: Result<Option<HeldLock>>) -> Result<Option<Token>> {
        if let Err(Error::Lost { .. }) = upgraded {
            self.lost = true;
            // The rest of the lock would only keep other processes out.
            let _ = self.file().release();
        }
        let Some(locked) = upgraded? else {
            return Ok(None);
        };
        self.locked = locked;
        Ok(Some(locked.token))
    }

    fn require_upgradeable(&self) -> Result<()> {
        self.check()?;
        if self.locked.mode == Mode::Upgradeable {
            return Ok(());
        }
        Err(self.conflict("an upgradeable lease"))
    }

    fn conflict(&self, expected: &str) -> Error {
        Error::unexpected(self.context(), expected, self.locked.mode.to_string())
    }

    fn context(&self) -> Box<LockContext> {
        self.author().context(self.locked.mode)
    }

    fn file(&self) -> &LockFile {
        &self.held.as_ref().expect(HELD).0
    }

    fn author(&self) -> &RecordAuthor {
        &self.held.as_ref().expect(HELD).1
    }

    fn parts(&mut self) -> (&LockFile, &mut RecordAuthor) {
        let (file, author) = self.held.as_mut().expect(HELD);
        (file, author)
    }
}

const HELD: &str = "a hold has its file until it is dropped";

impl Drop for Hold {
    fn drop(&mut self) {
        // If unlocking fails, the file is closed anyway, which ends the lock.
        let _ = self.release();
    }
}
