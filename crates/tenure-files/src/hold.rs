//! A lock that is held, and the ways to get one: now, as a thread, as a task.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tenure_core::{Error, Lease, Mode, Result, Token};

use crate::author::Author;
use crate::interrupt::Interrupt;
use crate::kernel_wait::KernelWait;
use crate::line::Lines;
use crate::lockfile::{self, Attempt, Grip, LockFile, Scribe};

/// A lock held by this process. Dropping it releases.
pub(crate) struct Hold {
    /// Always there until the hold is dropped.
    held: Option<(LockFile, Author)>,
    lines: Arc<Lines>,
    grip: Grip,
    /// M was lost during an upgrade.
    lost: bool,
    /// A descriptor was given away: someone else may keep this open file open.
    shared: bool,
}

/// Takes the lock if that needs no waiting, with an open file if there is one.
pub(crate) fn try_hold(
    lines: &Arc<Lines>,
    file: Option<LockFile>,
    mode: Mode,
    mut author: Author,
) -> Result<Result<Hold, Author>> {
    let path = author.path().clone();
    let attempt = lockfile::try_acquire(&path, file, mode, &mut author);
    conclude(lines, attempt, author)
}

/// Waits for the lock as a thread; None if the deadline comes first.
pub(crate) fn hold_until(
    lines: &Arc<Lines>,
    mode: Mode,
    author: Author,
    deadline: Instant,
) -> Result<Option<Hold>> {
    let ticket = lines.join(author.path());
    if !ticket.wait_first(deadline) {
        return Ok(None);
    }
    let mut interrupt = Interrupt::at(deadline);
    let hold = wait_first_in_line(lines, mode, author, &mut interrupt)?;
    Ok(hold.ok())
}

/// Waits for the lock as a task, for as long as the future lives.
pub(crate) async fn hold(lines: &Arc<Lines>, mode: Mode, author: Author) -> Result<Hold> {
    let ticket = lines.join(author.path());
    ticket.first().await;
    let waiting = lines.clone();
    let wait =
        move |interrupt: &mut Interrupt| wait_first_in_line(&waiting, mode, author, interrupt);
    // Dropped with this future, it is out of the kernel before the ticket is given up.
    let held = KernelWait::start(wait)?.await??;
    drop(ticket);
    held.map_err(|_| Error::Internal("a wait without a deadline ended without a lock".into()))
}

fn wait_first_in_line(
    lines: &Arc<Lines>,
    mode: Mode,
    mut author: Author,
    interrupt: &mut Interrupt,
) -> Result<Result<Hold, Author>> {
    let path = author.path().clone();
    let file = lines.take_kept(&path).map(|kept| kept.file);
    let attempt = lockfile::wait_acquire(&path, file, mode, &mut author, interrupt);
    conclude(lines, attempt, author)
}

/// Shares the lock for a moment if that needs no waiting, with an open file if there is one.
pub(crate) fn try_hold_briefly(
    lines: &Arc<Lines>,
    file: Option<LockFile>,
    author: Author,
) -> Result<Result<BriefHold, Author>> {
    let (file, granted) = match lockfile::try_share_briefly(author.path(), file) {
        Ok(attempt) => attempt,
        Err(error) => {
            lines.forget(author.path());
            return Err(error);
        }
    };
    if granted.is_none() {
        lines.keep(file, author.another());
        return Ok(Err(author));
    }
    Ok(Ok(BriefHold {
        held: Some((file, author)),
        lines: lines.clone(),
    }))
}

/// A shared lock without a record. Dropping it releases.
pub(crate) struct BriefHold {
    /// Always there until it is dropped.
    held: Option<(LockFile, Author)>,
    lines: Arc<Lines>,
}

impl Drop for BriefHold {
    fn drop(&mut self) {
        // In a forked child unlocking would unlock the parent; closing the file does not.
        if let Some((file, author)) = self.held.take().filter(|(file, _)| file.is_ours()) {
            match file.leave_m() {
                Ok(()) => self.lines.keep(file, author),
                Err(_) => self.lines.forget(file.path()),
            }
        }
    }
}

fn conclude(
    lines: &Arc<Lines>,
    attempt: Result<Attempt>,
    mut author: Author,
) -> Result<Result<Hold, Author>> {
    let (file, grip) = match attempt {
        Ok(attempt) => attempt,
        Err(error) => {
            lines.forget(author.path());
            return Err(error);
        }
    };
    let Some(grip) = grip else {
        lines.keep(file, author.another());
        return Ok(Err(author));
    };
    author.granted();
    Ok(Ok(Hold {
        held: Some((file, author)),
        lines: lines.clone(),
        grip,
        lost: false,
        shared: false,
    }))
}

impl Hold {
    /// The lease as its record says.
    pub(crate) fn lease(&self) -> Lease {
        self.author().lease()
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        self.file().path()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.grip.mode
    }

    pub(crate) fn token(&self) -> Token {
        self.grip.token
    }

    /// Fails if the lock protects nothing any more: its path means another file by now, or
    /// another program took it.
    pub(crate) fn check(&self) -> Result<()> {
        let reason = if self.lost {
            "another program took its lock file during an upgrade"
        } else if !self.file().is_current()? {
            "its lock file was replaced or removed"
        } else {
            return Ok(());
        };
        Err(Error::Lost {
            place: Box::new(self.author().place(self.grip.mode)),
            reason: reason.into(),
        })
    }

    /// Checks, and writes the record again with the time.
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.check()?;
        let grip = self.grip;
        let (file, author) = self.parts();
        file.rewrite_record(grip, author)
    }

    /// Makes it exclusive if no reader is there; None if one is.
    pub(crate) fn try_upgrade(&mut self) -> Result<Option<Token>> {
        self.require_upgradeable()?;
        let grip = self.grip;
        let (file, author) = self.parts();
        let upgraded = file.try_upgrade(grip, author);
        self.conclude_upgrade(upgraded)
    }

    /// Waits until no reader is left; None if interrupted, and all is as before.
    pub(crate) fn wait_upgrade(&mut self, interrupt: &mut Interrupt) -> Result<Option<Token>> {
        self.require_upgradeable()?;
        let grip = self.grip;
        let (file, author) = self.parts();
        let upgraded = file.wait_upgrade(grip, author, interrupt);
        self.conclude_upgrade(upgraded)
    }

    /// Makes an upgraded lock upgradeable again.
    pub(crate) fn downgrade(&mut self) -> Result<Mode> {
        if !self.grip.upgraded {
            return Err(self.conflict("a lease that was upgraded"));
        }
        let grip = self.grip;
        let (file, author) = self.parts();
        self.grip = file.downgrade(grip, author)?;
        Ok(self.grip.mode)
    }

    /// Undoes an upgrade that nobody learned of: all is as before, the token too.
    pub(crate) fn undo_upgrade(&mut self, before: Token) -> Result<()> {
        let grip = self.grip;
        let (file, author) = self.parts();
        self.grip = file.undo_upgrade(grip, before, author)?;
        Ok(())
    }

    /// Another descriptor that keeps the lock held while it is open anywhere.
    pub(crate) fn descriptor(&mut self) -> Result<OwnedFd> {
        let descriptor = self.file().duplicate()?;
        self.shared = true;
        Ok(descriptor)
    }

    /// Gives the lock up and says whether that worked; dropping does the same and does not say.
    /// Afterwards nothing but dropping is left to do with it.
    pub(crate) fn release(&mut self) -> Result<()> {
        let Some((file, author)) = self.held.take() else {
            return Ok(());
        };
        if !file.is_ours() {
            // A forked child: unlocking would unlock the parent, closing does not.
            return Ok(());
        }
        let left = file.leave();
        // An open file that a descendant may still have open is not used again: a later
        // lock through it would outlive this process.
        if self.shared || left.is_err() {
            self.lines.forget(file.path());
        } else {
            self.lines.keep(file, author);
        }
        left
    }

    fn conclude_upgrade(&mut self, upgraded: Result<Option<Grip>>) -> Result<Option<Token>> {
        if let Err(Error::Lost { .. }) = upgraded {
            self.lost = true;
            // What is left of it would only keep others out.
            let _ = self.file().leave();
        }
        let Some(grip) = upgraded? else {
            return Ok(None);
        };
        self.grip = grip;
        Ok(Some(grip.token))
    }

    fn require_upgradeable(&self) -> Result<()> {
        self.check()?;
        if self.grip.mode == Mode::Upgradeable {
            return Ok(());
        }
        Err(self.conflict("an upgradeable lease"))
    }

    fn conflict(&self, expected: &str) -> Error {
        Error::Conflict {
            place: Box::new(self.author().place(self.grip.mode)),
            expected: expected.into(),
            actual: self.grip.mode.to_string(),
        }
    }

    fn file(&self) -> &LockFile {
        &self.held.as_ref().expect(HELD).0
    }

    fn author(&self) -> &Author {
        &self.held.as_ref().expect(HELD).1
    }

    fn parts(&mut self) -> (&LockFile, &mut Author) {
        let (file, author) = self.held.as_mut().expect(HELD);
        (file, author)
    }
}

const HELD: &str = "a hold has its file until it is dropped";

impl Drop for Hold {
    fn drop(&mut self) {
        // If unlocking fails, the file is closed all the same, which ends the lock.
        let _ = self.release();
    }
}
