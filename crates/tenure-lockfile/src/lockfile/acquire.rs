//! Acquires a lock: without waiting, and through the line.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Mode, Result};
use tenure_os::cancel::Ended;
use tenure_os::platform::{self, Share};

use super::layout::{GATE, INTENT, LINE, TURNSTILE};
use super::{HeldLock, LockFile, RecordWriter};
use crate::interrupt::Interrupt;

/// A lock file, and what it holds if the lock was granted.
pub(crate) type Attempt = (LockFile, Option<HeldLock>);

/// The outcome of one attempt.
pub(super) enum Attempted<T = HeldLock> {
    /// The lock is held.
    Granted(T),
    /// Another process is before us, or the wait has ended.
    Busy,
    /// The path means another file by now.
    Replaced,
}

/// The number of times after which a file that is replaced again and again is an error.
const REPLACED_MAX: u32 = 100;

/// The longest age of a writer's record at its grant, since it is written before that. After a
/// longer wait it is written again, so that it says when the lock was granted.
const RECORD_AGE_MAX: Duration = Duration::from_millis(10);

/// Takes the lock if it needs no wait. `idle` is an open file to use, if there is one.
pub(crate) fn try_acquire(
    path: &Arc<Path>,
    idle: Option<LockFile>,
    mode: Mode,
    writer: &mut dyn RecordWriter,
) -> Result<Attempt> {
    acquire(path, idle, |file| file.try_once(mode, writer))
}

/// Waits for the lock until it is granted or interrupted.
pub(crate) fn wait_acquire(
    path: &Arc<Path>,
    idle: Option<LockFile>,
    mode: Mode,
    writer: &mut dyn RecordWriter,
    interrupt: &mut Interrupt,
) -> Result<Attempt> {
    acquire(path, idle, |file| file.wait_once(mode, writer, interrupt))
}

/// Shares the lock for a moment if it needs no wait. It leaves no record, which is fine for as long
/// as it takes to read a file.
pub(crate) fn try_share_briefly(
    path: &Arc<Path>,
    idle: Option<LockFile>,
) -> Result<(LockFile, Option<()>)> {
    acquire(path, idle, LockFile::try_share_once)
}

fn acquire<T>(
    path: &Arc<Path>,
    mut idle: Option<LockFile>,
    mut once: impl FnMut(&mut LockFile) -> Result<Attempted<T>>,
) -> Result<(LockFile, Option<T>)> {
    for _ in 0..REPLACED_MAX {
        let mut file = match idle.take() {
            Some(file) => file,
            None => LockFile::open(path)?,
        };
        match once(&mut file)? {
            Attempted::Granted(locked) => return Ok((file, Some(locked))),
            Attempted::Busy => return Ok((file, None)),
            // The path means another file by now: this one is closed, and that one is opened.
            Attempted::Replaced => {}
        }
    }
    Err(super::not_a_lock_file(path, "it is replaced all the time"))
}

pub(super) fn share(mode: Mode) -> Share {
    match mode {
        Mode::Write => Share::Exclusive,
        Mode::Read | Mode::Upgradeable => Share::Shared,
    }
}

impl LockFile {
    fn try_once(&mut self, mode: Mode, writer: &mut dyn RecordWriter) -> Result<Attempted> {
        if !self.try_m(mode)? {
            return Ok(Attempted::Busy);
        }
        self.or_release(|file| {
            if !file.is_current()? {
                return Ok(Attempted::Replaced);
            }
            let granted = file.grant_directly(mode, writer)?;
            Ok(granted.map_or(Attempted::Busy, Attempted::Granted))
        })
    }

    /// Locks M shared, looks up the path, and gives up if a waiter is in line: a brief reader needs
    /// no more to keep writers out. Other processes see it as a program that only knows `flock`.
    fn try_share_once(&mut self) -> Result<Attempted<()>> {
        if !self.try_m(Mode::Read)? {
            return Ok(Attempted::Busy);
        }
        self.or_release(|file| {
            if !file.is_current()? {
                return Ok(Attempted::Replaced);
            }
            file.line_expected = file.read_head()?.marked;
            if file.line_expected && file.someone_is_in_line()? {
                return Ok(Attempted::Busy);
            }
            Ok(Attempted::Granted(()))
        })
    }

    /// Locks M without blocking. Returns false if M is held, or if a line that was met earlier is
    /// still there.
    fn try_m(&mut self, mode: Mode) -> Result<bool> {
        if self.line_expected && self.read_head()?.marked && self.someone_is_in_line()? {
            return Ok(false);
        }
        let granted = platform::try_flock(&self.file, share(mode))
            .map_err(|source| self.failed("lock", source))?;
        self.line_expected |= !granted;
        Ok(granted)
    }

    fn wait_once(
        &mut self,
        mode: Mode,
        writer: &mut dyn RecordWriter,
        interrupt: &mut Interrupt,
    ) -> Result<Attempted> {
        self.or_release(|file| {
            let granted = match mode {
                Mode::Write => file.wait_to_write(writer, interrupt),
                Mode::Read | Mode::Upgradeable => file.wait_to_share(mode, writer, interrupt),
            };
            granted.map(|granted| granted.unwrap_or(Attempted::Busy))
        })
    }

    /// Does everything except the look at the path before it locks M.
    fn wait_to_write(
        &mut self,
        writer: &mut dyn RecordWriter,
        interrupt: &mut Interrupt,
    ) -> Result<Result<Attempted, Ended>> {
        if let Err(ended) = self.stand_in_line((INTENT, Share::Exclusive), interrupt)? {
            return Ok(Err(ended));
        }
        let (locked, before) = self.prepare_to_write(writer)?;
        let prepared = Instant::now();
        if let Err(ended) = self.wait_for_m(Mode::Write, interrupt)? {
            // This token was not granted, so it must not fence anyone.
            self.put_back_token(locked.slot, before)?;
            return Ok(Err(ended));
        }
        if !self.is_current()? {
            return Ok(Ok(Attempted::Replaced));
        }
        if prepared.elapsed() > RECORD_AGE_MAX {
            self.rewrite_record(locked, writer)?;
        }
        Ok(Ok(Attempted::Granted(locked)))
    }

    fn wait_to_share(
        &mut self,
        mode: Mode,
        writer: &mut dyn RecordWriter,
        interrupt: &mut Interrupt,
    ) -> Result<Result<Attempted, Ended>> {
        let pass = match mode {
            Mode::Read => (GATE, Share::Shared),
            Mode::Write | Mode::Upgradeable => (INTENT, Share::Exclusive),
        };
        if let Err(ended) = self.stand_in_line(pass, interrupt)? {
            return Ok(Err(ended));
        }
        if let Err(ended) = self.wait_for_m(mode, interrupt)? {
            return Ok(Err(ended));
        }
        if !self.is_current()? {
            return Ok(Ok(Attempted::Replaced));
        }
        let token = self.last_token()?;
        let granted = self.grant_shared(mode, token, writer)?;
        self.unlock_bytes(LINE)?;
        Ok(Ok(granted.map_or(Attempted::Busy, Attempted::Granted)))
    }

    /// Waits until this is the first in line, and locks the bytes that are needed before M.
    fn stand_in_line(
        &mut self,
        pass: (std::ops::Range<u64>, Share),
        interrupt: &mut Interrupt,
    ) -> Result<Result<(), Ended>> {
        self.line_expected = true;
        if let Err(ended) = self.join_queue(interrupt)? {
            return Ok(Err(ended));
        }
        for (bytes, how) in [(TURNSTILE, Share::Exclusive), pass] {
            if let Err(ended) = self.wait_bytes(bytes, how, interrupt)? {
                return Ok(Err(ended));
            }
        }
        Ok(Ok(()))
    }

    fn wait_for_m(&self, mode: Mode, interrupt: &mut Interrupt) -> Result<Result<(), Ended>> {
        let granted = interrupt.wait(|| platform::wait_flock(&self.file, share(mode)));
        granted.map_err(|source| self.failed("lock", source))
    }

    /// Releases everything if the attempt is not granted.
    fn or_release<T>(
        &mut self,
        attempt: impl FnOnce(&mut Self) -> Result<Attempted<T>>,
    ) -> Result<Attempted<T>> {
        let attempted = attempt(self);
        if matches!(attempted, Ok(Attempted::Granted(_))) {
            return attempted;
        }
        let released = self.release();
        // The first error is reported. If unlocking failed, closing the file unlocks.
        let attempted = attempted?;
        released.map(|()| attempted)
    }
}
