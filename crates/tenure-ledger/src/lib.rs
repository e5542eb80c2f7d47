//! The ledger: events that are never lost, and nodes that exactly one agent works on.
//!
//! ```
//! # fn main() -> Result<(), tenure_core::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path().join("proof");
//! use std::time::Duration;
//! use tenure_ledger::Ledger;
//!
//! Ledger::init(&directory, None)?;
//! let ledger = Ledger::open(&directory, Duration::from_secs(5))?;
//! assert_eq!(ledger.append(r#"{"type":"node_created","node_id":"1.2"}"#)?, 1);
//! let claim = ledger.claim(&"1.2".parse()?, None)?;
//! assert_eq!(claim.token, 2);
//! ledger.release(&"1.2".parse()?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Each event is one file, `DIR/ledger/event-000001.json` and so on, numbered from 1 without gaps
//! and never changed. Other programs append to the same directory by the protocol in
//! `docs/ledger.md`: they create `ledger.lock`, add a file, and remove `ledger.lock`.
//!
//! | module | what it holds |
//! |---|---|
//! | `names`, `event` | which file is what; what an event is |
//! | `append_queue` | appends of several threads of this process, written together |
//! | `lock` | `ledger.lock` among strangers, and the kernel lock before it |
//! | `newest` | the newest event, at a cost that does not grow; what a crash left behind it |
//! | `append` | the steps below |
//! | `held_claims`, `decide` | who has which node; the one decision on claims |
//! | `claim`, `foreign_claims` | claim, renew, release, reap; files that others leave in `locks/` |
//! | `state` | the claims without replaying everything: the snapshot |
//! | `read`, `follow` | events in order; events as they come |
//! | `verify`, `repair` | what is wrong, and what can be done about it |
//! | `init` | a new ledger |
//!
//! # An append, step by step
//!
//! 1. Write the event to a file without a name (`O_TMPFILE`) and sync it. No lock is held. *Crash:*
//!    the file is gone. Where the file system has no such files, or does not sync them, the file is
//!    called `.event-new.HEX.tmp`; it stays after a crash, and `verify` knows it by its name.
//! 2. Wait in the queue inside the process. Its leader goes on, for up to 64 that wait by then.
//! 3. Lock `.queue.lock` in the kernel: of all our processes, one at a time goes on. *Crash:* the
//!    kernel unlocks it.
//! 4. If `ledger.lock` is the same file as `.ledger.lock.tmp`, remove it: a process of ours that
//!    died left it, since no other process holds `.queue.lock`. Write who we are to
//!    `.ledger.lock.tmp`, and link it to `ledger.lock`. If that name is taken, a stranger has the
//!    lock: try again every 10 ms. *Crash:* both names stay, and the next process of ours removes
//!    `ledger.lock`. *Power loss:* `.ledger.lock.tmp` is made once and synced before its first
//!    link, so a `ledger.lock` that comes back is always known as ours.
//! 5. Find the newest event. Unless `.newest` says that a process of ours wrote and synced it since
//!    this machine started, list all names. If a number is missing at or below the highest
//!    acknowledged one, or below an event that is there, fail with an error that names it, and move
//!    nothing. Sync the directory and all events since the one noted: strangers, and processes of
//!    ours that died in step 7, may not have synced them. *Power loss:* none of our new events is
//!    there before all of these are durable.
//! 6. Compare the sequence with the one expected, and the claim with the token.
//! 7. Check that `ledger.lock` is still ours. Give the file the next number as its name, never in
//!    place of a file: if the name is taken, another program ignored the lock. *Crash:* the event
//!    is there and may be lost with the power; it was not acknowledged. *Power loss:* of the events
//!    of several threads any may be there and any not, which is a gap. *A stall before that, in
//!    which a stranger takes our lock away:* the next step notices.
//! 8. Sync the directory. *If it fails:* the events may be there or not
//!    ([`OutcomeUnknown`](LedgerError::OutcomeUnknown)). `.newest` stays as it was, so that step 5
//!    of the next append syncs them anew, and appends nothing unless it can. Check again that the
//!    lock and the events are ours: a stranger's `mv` may have replaced them. If not, nothing is
//!    acknowledged ([`Lost`](crate::Error::Lost)).
//! 9. Write the number to `.newest`, without a sync. Remove `ledger.lock`: rename it to a name of
//!    our own, check that it is the file that was meant, and remove it, or put it back. *Crash:* as
//!    in step 4.
//! 10. Unlock `.queue.lock`, and only then answer.
//!
//! A claim goes the same way, but its events are written in step 6, under the lock, where it is
//! decided.
//!
//! # What can be cancelled
//!
//! The [`Cancel`] of a [caller](Ledger::for_caller) ends the waits of steps 2 to 4, the pauses of
//! [`Ledger::append_retrying`], and the wait for the next event. A cancelled append releases the
//! locks that it holds by then, and removes the event of step 1. Once a leader has taken a request
//! out of the queue, a cancellation changes nothing: the request is written, and its caller is told
//! the outcome.
//!
//! # Guarantees
//!
//! - An event that was acknowledged is durable, whole, and has its number for good.
//! - Numbers have no gaps, and none comes again; readers take no lock. An event that was removed is
//!   an error that names it, until a person restores it or has [`repair`](Ledger::repair) mark it
//!   as missing.
//! - A claim has one winner. An event with the token of a claim that is over is refused; the check
//!   and the append happen under one lock.
//! - A program that follows the protocol for external tools is neither disturbed nor overtaken.
//!
//! # Limitations
//!
//! - One event is the most that is atomic: there are no transactions over several.
//! - Between us and strangers, and between strangers, turns are not fair.
//! - A ledger works on one machine and a local file system, for one user and root. A program that
//!   writes events without the lock is detected where it meets us, and not kept out.
//! - Only [`Ledger::verify`] finds an old event that was edited. A removed event is found by every
//!   reader that lists the names or replays it, but not by an append to more than 1024 events whose
//!   newest is there. If the newest event was removed together with `.newest` and the snapshot, its
//!   loss cannot be found.
//! - After a power loss a gap among events that were written together, or that strangers did not
//!   sync, needs a person, though none of these events was acknowledged.
//! - Claims end by the clock on the wall: a clock set forward ends them early. A clock set back
//!   does not give them more time, as time never falls behind the newest claim event.
//! - An event has at most 1,000,000 bytes. Of the events that strangers added since our newest one,
//!   only the last 1024 are synced. Linux tells once that a sync failed: where that happens to a
//!   stranger's event, the append fails, and the event may be torn after a power loss.

mod append;
mod append_queue;
mod claim;
#[cfg(test)]
mod crashes;
mod decide;
mod error;
pub mod event;
mod follow;
mod foreign_claims;
mod held_claims;
mod init;
mod lock;
mod names;
mod newest;
mod read;
mod repair;
mod state;
#[cfg(test)]
mod tests;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::{Error, Result, Timestamp};
use tenure_lockfile::{FileCaller, FileLocker, resource_of};
use tenure_os::clock;
use tenure_os::disk::{Disk, RealDisk};

pub use append::Terms as AppendTerms;
pub use error::LedgerError;
pub use follow::FollowLedger;
pub use held_claims::{ClaimToken, Node};
pub use init::{CLAIM_TTL_MAX, CLAIM_TTL_MIN};
pub use repair::Confirmed;
pub use tenure_api::ledger::Claim;
pub use tenure_os::cancel::Cancel;

use append_queue::AppendQueue;
use names::{Form, Names};
use state::State;

/// A ledger. Threads of a program that share one have their events written together.
///
/// A clone shares the queues and open lock files; [`for_caller`](Ledger::for_caller) makes one for
/// another caller.
#[derive(Clone)]
pub struct Ledger {
    names: Names,
    locker: FileLocker,
    disk: Arc<dyn Disk>,
    append_queue: Arc<AppendQueue>,
    /// True once all names were listed since the ledger was opened.
    is_listed: Arc<AtomicBool>,
    /// The claims as far as this process has read.
    memory: Arc<Mutex<Option<State>>>,
    /// Called with messages for people.
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called when the waiting is over and the writing begins.
    on_locked: Arc<dyn Fn() + Send + Sync>,
    now: fn() -> Timestamp,
    boot_id: String,
    /// A snapshot is written once more events than this had to be replayed.
    replayed_max: u64,
}

impl Ledger {
    /// Opens the ledger in a directory, in the name of this process. Waits end after `wait`.
    pub fn open(directory: &Path, wait: Duration) -> Result<Self> {
        let ledger = Self::on(directory, FileLocker::new(wait), Arc::new(RealDisk))?;
        if !ledger.names.ledger().is_dir() {
            let path = directory.to_owned();
            return Err(LedgerError::Missing { path }.into());
        }
        Ok(ledger)
    }

    fn on(directory: &Path, locker: FileLocker, disk: Arc<dyn Disk>) -> Result<Self> {
        let directory = std::path::absolute(directory);
        let directory = directory.map_err(|source| Error::io("find", "", source))?;
        let name = |queue: &Path| resource_of(queue.parent().unwrap_or(queue));
        let mut names = Names::new(&directory, Form::Seed);
        let exists = |path: &Path| disk.exists(path).unwrap_or(false);
        let other = Names::new(&directory, Form::Af);
        if !exists(&names.event(1)) && exists(&other.event(1)) {
            names = other;
        }
        Ok(Self {
            names,
            locker: locker.with(name, |_| Ok(())),
            disk,
            append_queue: Arc::default(),
            is_listed: Arc::default(),
            memory: Arc::default(),
            tell: Arc::new(|_| ()),
            on_locked: Arc::new(|| ()),
            now: clock::now,
            boot_id: clock::boot_id()?.to_owned(),
            replayed_max: state::REPLAYED_MAX,
        })
    }

    /// Returns the ledger for a caller, whose owner claims nodes. Events of all callers are written
    /// together. A wait that the caller cancels ends with [`Error::Interrupted`].
    pub fn for_caller(&self, caller: &FileCaller) -> Self {
        Self {
            locker: self.locker.for_caller(caller),
            on_locked: Arc::clone(&caller.on_locked),
            ..self.clone()
        }
    }

    /// Sets the function that is called with messages for people.
    pub fn with_messages(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Skips the check that the file system is one where locks hold.
    pub fn trusting_the_file_system(mut self) -> Self {
        self.locker = self.locker.trusting_the_file_system();
        self
    }

    /// Returns the error of a wait that was cancelled.
    fn interrupted(&self) -> Error {
        Error::interrupted(resource_of(self.names.ledger()))
    }

    /// Returns the lock that other programs take, too.
    pub fn shared_lock(&self) -> PathBuf {
        self.names.lock()
    }

    /// Returns the kernel lock that our appenders queue on, for
    /// [`holders`](tenure_lockfile::holders).
    pub fn queue_lock(&self) -> PathBuf {
        self.names.queue()
    }
}
