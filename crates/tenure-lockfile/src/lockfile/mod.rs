//! One lock file: the protocol.
//!
//! A lock is one file that is never removed and never truncated. A process that has it open can
//! hold it. `flock` on it decides between readers and a writer, so that other programs that use
//! `flock` join in. Locks on single bytes of the same open file do the rest: they put
//! waiters in line, prove records, and let others look without touching anything. All of
//! them end with the last descriptor, whatever happens to the process.
//!
//! M is the `flock`; the bytes are INTENT, TURNSTILE, GATE, QUEUE, one that proves the
//! upgrader's record, two for each reader, and one for each token (see [`layout`]).
//!
//! # Who holds what
//!
//! | mode | M | bytes |
//! |---|---|---|
//! | write, without waiting | exclusive | the byte of its token |
//! | write, through the line | exclusive | the bytes of its token and all higher ones, INTENT, TURNSTILE, QUEUE (shared) |
//! | upgradeable | shared | its proof, INTENT |
//! | read | shared | its two |
//! | read, for a moment | shared | none: it leaves no record |
//!
//! # Without waiting
//!
//! 1. If the last attempt met a line, look whether it is still there before touching M: otherwise
//!    many processes that try again and again would keep M from the first in line.
//! 2. Lock M without blocking. If it is held: busy.
//! 3. Is the path still this file? If not, begin again with the new one. Read the head. If the mark
//!    is set, ask whether a waiter is in QUEUE: if so, give M back, busy. A writer that finds no
//!    waiter clears the mark, with QUEUE locked exclusively for that moment, so that none can join
//!    in between.
//! 4. Write the record (for write: with the next token, in one call), then lock the byte that
//!    proves it, without blocking. A writer that finds its byte taken came in the instant in which
//!    the first in line drew its token: it puts the old token back and gives M back, busy. An
//!    upgradeable that finds INTENT taken is busy.
//!
//! # Waiting
//!
//! 1. Lock QUEUE (shared), set the mark. From now on no request overtakes.
//! 2. Lock TURNSTILE: the kernel queues waiters in the order they come.
//! 3. Write and upgradeable: lock INTENT. Read: lock GATE (shared), so that a waiting
//!    upgrade goes first.
//! 4. Write: lock the bytes of all tokens above the last, so that no other writer is granted one;
//!    then draw the token and write the record, which is proved by its byte already. All this
//!    happens during the wait, so that only the look at the path is left for after the grant.
//! 5. Lock M, then look at the path again.
//! 6. Write: done; the line is given up with the lock. Others: the record, its proof, then
//!    TURNSTILE, GATE and QUEUE are given up in one call, and the next in line moves up.
//!
//! # Upgrade
//!
//! Lock QUEUE, set the mark, lock GATE: no reader enters, and a process that gets M finds QUEUE
//! taken and gives it back. Then turn M exclusive; the kernel drops the shared lock
//! before it waits for the exclusive one, but INTENT keeps the first in line away. Draw a
//! token, write the record of a writer, lock its proof, unlock the upgrader's, give up the
//! line. On timeout M is made shared again.
//!
//! # Release
//!
//! All bytes first, then M, which is also the order in which the kernel ends them when a
//! process dies.
//!
//! # Crashes
//!
//! A process that is killed at any step loses all its locks at once, by the kernel. Only content
//! stays: a record whose byte is not locked is not true, and the mark is only a reason to ask. A
//! token that was written but not granted counts as drawn: that fences no holder, as holders carry
//! tokens of their own.
//!
//! # Invariants
//!
//! 1. The first cell is written only with M exclusive, the second only with TURNSTILE.
//! 2. While the mark is clear, the first cell is not behind the second.
//! 3. The record of a writer in line is proved before its grant. The writer is a holder only if no
//!    other process is: [`look`](mod@look) knows that.
//!
//! # Races, and what prevents them
//!
//! - *Two files under one name.* The path is looked up again after M is granted; M of a
//!   file that is no longer there is worth nothing. A holder whose file is replaced is told
//!   so ([`LockFile::is_current`]); it cannot be protected from the process that did it.
//! - *Two writers draw one token.* Step 4 of waiting and step 4 of not waiting exclude each
//!   other, see `close_tokens_above_the_last`.
//! - *A left-over record is seen.* A writer's byte belongs to its token alone; the other bytes are
//!   locked after the record is written; and a look believes only what it sees twice.
//! - *Looking disturbs.* Looking asks for locks and takes none.
//! - *A forked child.* It shares the open file, so an unlock there would unlock the parent: a child
//!   only closes.

mod acquire;
mod cell;
mod grant;
mod layout;
mod look;
mod record;
mod release;
mod upgrade;

pub(crate) use acquire::{Attempt, try_acquire, try_share_briefly, wait_acquire};
pub use look::{Look, look};
pub use record::Record;
pub(crate) use record::{Grant, holder_line};

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_core::{Error, LockContext, Mode, Result, Token};
use tenure_os::platform::{self, Identity};

use layout::Slot;

/// The source of what a lease has besides its lock: a token and a record.
pub(crate) trait RecordWriter {
    /// Returns a token that is higher than `last`.
    fn draw(&mut self, last: Token) -> Result<Token>;
    /// Returns the record to leave, given the token and mode of the lease: the grant and the line
    /// about the holder.
    fn record(&mut self, token: Token, mode: Mode) -> (&Grant, &str);
    /// Returns the lock, for errors about it.
    fn context(&self, mode: Mode) -> Box<LockContext>;
}

/// An open lock file of this process. One open file holds one lock.
pub(crate) struct LockFile {
    file: File,
    path: Arc<Path>,
    identity: Identity,
    generation: u32,
    /// The slot of the last reader record, which is tried first.
    reader_hint: u64,
    /// True if the last attempt found waiters in line.
    line_expected: bool,
}

/// The lock that a lock file holds: its mode and token, and the slot of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    /// True if the lock was upgradeable and became write by an upgrade.
    pub(crate) upgraded: bool,
    slot: Slot,
}

impl LockFile {
    /// Opens a lock file, creating it if it does not exist.
    pub(crate) fn open(path: &Arc<Path>) -> Result<Self> {
        let file = platform::open_or_create(path).map_err(|source| explain(path, source))?;
        let identity = platform::identity_of_regular(&file)
            .map_err(|source| Error::io("look at", &**path, source))?;
        let Some(identity) = identity else {
            return Err(not_a_lock_file(path, "it is not a regular file"));
        };
        Ok(Self {
            file,
            path: path.clone(),
            identity,
            generation: platform::fork_generation(),
            reader_hint: 0,
            line_expected: false,
        })
    }

    /// Returns the path at which the file was opened.
    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Returns true if the path still means this file.
    pub(crate) fn is_current(&self) -> Result<bool> {
        let found =
            platform::identity_at(&self.path).map_err(|source| self.failed("look at", source))?;
        Ok(found == Some(self.identity))
    }

    /// Returns true if this process opened the file, and not the parent it was forked from.
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == platform::fork_generation()
    }

    /// Returns another descriptor that keeps the lock held while it is open anywhere.
    pub(crate) fn duplicate(&self) -> Result<OwnedFd> {
        platform::duplicate(&self.file).map_err(|source| self.failed("duplicate", source))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::io(action, &*self.path, source)
    }
}

fn explain(path: &Path, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ELOOP) => {
            not_a_lock_file(path, "it is a symbolic link, which is never followed")
        }
        Some(libc::EISDIR) => not_a_lock_file(path, "it is a directory"),
        Some(libc::ENXIO) => not_a_lock_file(path, "it is not a regular file"),
        _ => Error::io("open", path, source),
    }
}

fn not_a_lock_file(path: &Path, problem: &str) -> Error {
    Error::corrupt(
        PathBuf::from(path),
        format!("cannot be used as a lock file: {problem}"),
    )
}
