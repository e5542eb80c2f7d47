//! The way to a lock: without waiting, and through the line.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Mode, Result};

use super::layout::{GATE, INTENT, LINE, TURNSTILE};
use super::{Grip, LockFile, Scribe};
use crate::interrupt::{Ended, Interrupt};
use crate::platform::{self, Share};

/// A lock file, and what it holds if the lock was granted.
pub(crate) type Attempt = (LockFile, Option<Grip>);

/// How one attempt ends.
pub(super) enum Attempted<T = Grip> {
    /// The lock is held, and this is what is known of it.
    Granted(T),
    /// Someone is before us, or the wait was over.
    Busy,
    /// The path means another file by now.
    Replaced,
}

/// A file that is replaced again and again cannot be locked; after this many times it is an error.
const REPLACED_MAX: u32 = 100;

/// A writer's record is written before its grant. If the wait was longer than this, it is
/// written again, so that it says when the lock was granted.
const RECORD_AGE_MAX: Duration = Duration::from_millis(10);

/// Takes the lock if that needs no waiting. `kept` is an open file to use, if there is one.
pub(crate) fn try_acquire(
    path: &Arc<Path>,
    kept: Option<LockFile>,
    mode: Mode,
    scribe: &mut dyn Scribe,
) -> Result<Attempt> {
    acquire(path, kept, |file| file.try_once(mode, scribe))
}

/// Waits for the lock until the interrupt says otherwise; None then.
pub(crate) fn wait_acquire(
    path: &Arc<Path>,
    kept: Option<LockFile>,
    mode: Mode,
    scribe: &mut dyn Scribe,
    interrupt: &mut Interrupt,
) -> Result<Attempt> {
    acquire(path, kept, |file| file.wait_once(mode, scribe, interrupt))
}

/// Shares the lock for a moment if that needs no waiting, and leaves no record: nobody sees who
/// reads, which is fine for as long as it takes to read a file.
pub(crate) fn try_share_briefly(
    path: &Arc<Path>,
    kept: Option<LockFile>,
) -> Result<(LockFile, Option<()>)> {
    acquire(path, kept, LockFile::try_share_once)
}

fn acquire<T>(
    path: &Arc<Path>,
    mut kept: Option<LockFile>,
    mut once: impl FnMut(&mut LockFile) -> Result<Attempted<T>>,
) -> Result<(LockFile, Option<T>)> {
    for _ in 0..REPLACED_MAX {
        let mut file = match kept.take() {
            Some(file) => file,
            None => LockFile::open(path)?,
        };
        match once(&mut file)? {
            Attempted::Granted(grip) => return Ok((file, Some(grip))),
            Attempted::Busy => return Ok((file, None)),
            // The name means another file by now: this one is closed, that one is opened.
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
    fn try_once(&mut self, mode: Mode, scribe: &mut dyn Scribe) -> Result<Attempted> {
        if !self.try_m(mode)? {
            return Ok(Attempted::Busy);
        }
        self.or_leave(|file| {
            if !file.is_current()? {
                return Ok(Attempted::Replaced);
            }
            let settled = file.settle_directly(mode, scribe)?;
            Ok(settled.map_or(Attempted::Busy, Attempted::Granted))
        })
    }

    /// M shared, the path looked up, nobody in line: that is all a reader needs to keep writers
    /// out. It is a program that only knows `flock`, to all others.
    fn try_share_once(&mut self) -> Result<Attempted<()>> {
        if !self.try_m(Mode::Read)? {
            return Ok(Attempted::Busy);
        }
        self.or_leave(|file| {
            if !file.is_current()? {
                return Ok(Attempted::Replaced);
            }
            file.line_expected = file.read_head()?.marked;
            match file.line_expected && file.someone_is_in_line()? {
                true => Ok(Attempted::Busy),
                false => Ok(Attempted::Granted(())),
            }
        })
    }

    /// M, if nobody holds it and no line was met that is still there.
    fn try_m(&mut self, mode: Mode) -> Result<bool> {
        if self.line_expected && self.read_head()?.marked && self.someone_is_in_line()? {
            return Ok(false);
        }
        let granted = platform::try_flock(&self.file, share(mode));
        let granted = granted.map_err(|source| self.failed("lock", source))?;
        self.line_expected |= !granted;
        Ok(granted)
    }

    fn wait_once(
        &mut self,
        mode: Mode,
        scribe: &mut dyn Scribe,
        interrupt: &mut Interrupt,
    ) -> Result<Attempted> {
        self.or_leave(|file| {
            let granted = match mode {
                Mode::Write => file.wait_to_write(scribe, interrupt),
                Mode::Read | Mode::Upgradeable => file.wait_to_share(mode, scribe, interrupt),
            };
            granted.map(|granted| granted.unwrap_or(Attempted::Busy))
        })
    }

    /// Everything but the look at the path is done before M is asked for.
    fn wait_to_write(
        &mut self,
        scribe: &mut dyn Scribe,
        interrupt: &mut Interrupt,
    ) -> Result<Result<Attempted, Ended>> {
        if let Err(ended) = self.stand_in_line((INTENT, Share::Exclusive), interrupt)? {
            return Ok(Err(ended));
        }
        let (grip, before) = self.prepare_to_write(scribe)?;
        let prepared = Instant::now();
        if let Err(ended) = self.wait_for_m(Mode::Write, interrupt)? {
            // Nobody was granted this token, so nobody shall be fenced by it.
            self.put_back_token(grip.slot, before)?;
            return Ok(Err(ended));
        }
        if !self.is_current()? {
            return Ok(Ok(Attempted::Replaced));
        }
        if prepared.elapsed() > RECORD_AGE_MAX {
            self.rewrite_record(grip, scribe)?;
        }
        Ok(Ok(Attempted::Granted(grip)))
    }

    fn wait_to_share(
        &mut self,
        mode: Mode,
        scribe: &mut dyn Scribe,
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
        let settled = self.settle_shared(mode, token, scribe)?;
        self.unlock_bytes(LINE)?;
        Ok(Ok(settled.map_or(Attempted::Busy, Attempted::Granted)))
    }

    /// Goes through the line up to its first place, and locks what is needed before M.
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

    /// Whatever is not granted holds nothing afterwards.
    fn or_leave<T>(
        &mut self,
        attempt: impl FnOnce(&mut Self) -> Result<Attempted<T>>,
    ) -> Result<Attempted<T>> {
        let attempted = attempt(self);
        if matches!(attempted, Ok(Attempted::Granted(_))) {
            return attempted;
        }
        let left = self.leave();
        // The first error is the one to tell; if unlocking failed, closing the file does it.
        let attempted = attempted?;
        left.map(|()| attempted)
    }
}
