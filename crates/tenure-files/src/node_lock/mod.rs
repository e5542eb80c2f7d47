//! The lock that Node's `proper-lockfile` takes: an empty directory `NAME.lock` beside `NAME`.
//!
//! A lock is alive while its modification time is at most [`STALE_AFTER`] old; its holder sets that
//! time anew twice as often. Node programs and ours meet in this one directory. Our programs take
//! the document's own kernel lock first: only its holder asks for this lock.
//!
//! # Taking it
//!
//! | step | a crash after it leaves | the race it prevents |
//! |---|---|---|
//! | make `NAME.lock.<16 hex>.new` and open it | an empty directory that no program asks for | opened before others see it, the descriptor is surely ours: setting a time through it can never touch a foreign lock, and while it is open its inode number is not given to another |
//! | set its time to now | as above | when others see it, it is fresh |
//! | rename it to `NAME.lock`, replacing nothing | a lock that is stale in 10 s | like `mkdir`, this fails if a lock is there |
//! | a thread sets the time anew every 5 s | as above | no program finds a living lock stale |
//!
//! If a lock is there, it is looked at again after 50, 100, 200, 400, 500, 500 … ms, each shortened
//! by up to a quarter, until the deadline. A time in the future is fresh: the first lock of a Node
//! process carries one. A lock that was seen unchanged for 12 s, on a clock that cannot be set, is
//! stale whatever its time says.
//!
//! A cancelled wait ends between two looks, when nothing of ours is in place.
//!
//! # Taking over a stale one
//!
//! The original removes a stale lock by its path. If two processes saw the stale lock, they remove
//! it one after the other: the second removes the fresh lock of the first, and both hold.
//!
//! | step | a crash after it leaves | the race it prevents |
//! |---|---|---|
//! | rename it to `NAME.lock.<16 hex>.stale` | an empty directory that no program asks for | only one of two processes moves it |
//! | compare inode and time of the moved directory with the stale lock's | as above | a fresh lock moved by mistake is put back at once, replacing nothing |
//! | remove it | nothing | |
//! | take the lock as above | see above | another process may be faster: then this one waits for it |
//! | let 100 ms pass, then look whether it is still ours | a lock that is stale in 10 s | a Node process that saw the stale lock, too, may remove ours by its path |
//!
//! A cancellation in these 100 ms releases the lock as below.
//!
//! # Holding it
//!
//! [`NodeLock::check`] looks whether the path still means our inode, with the time we set, and
//! whether that time is young enough. The thread looks, too, before it sets the time anew. If one
//! of these fails, the lock is lost, for good: its holder is told once ([`OnLost`]), nothing is
//! refreshed any more, and the directory that is there now is left alone. A lock that is too old
//! counts as lost even if it was not taken yet: another process may be about to take it.
//!
//! # Releasing it
//!
//! | step | a crash after it leaves | the race it prevents |
//! |---|---|---|
//! | look whether the path still means our inode | a lock that is stale in 10 s | the lock of a program that took over stays |
//! | rename it to `NAME.lock.<16 hex>.stale` | an empty directory that no program asks for | |
//! | look at the moved directory, and remove it if it is ours | nothing | a foreign lock is put back at once, replacing nothing |
//!
//! # Limitations
//!
//! - The lock depends on time. A holder that stops for 10 s between its last look and its write
//!   writes beside the next holder. Documents look right before the rename.
//! - A foreign lock moved by mistake is away for two system calls. If its holder looks in this
//!   instant it finds itself compromised; if a third program makes a lock in this instant, the
//!   moved lock is removed, and its holder finds out at its next look.
//! - A Node process that saw a stale lock and stood still for longer than 100 ms may still remove a
//!   fresh one, ours or another's. Our holder finds out at its next look.
//! - All programs must use 10 s: the lock of a Node program with a longer `stale` is taken over
//!   early.
//! - If the clock is set forward by more than 10 s, every lock looks stale until it is
//!   refreshed, to Node and to us.

mod acquire;
mod directory;
mod hold;
mod names;
mod refresh;
mod release;
mod stale;
mod take_over;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Mode, Result};
use tenure_lockfile::log::Logged;
use tenure_os::cancel::Cancel;
use tenure_os::platform;

use hold::Hold;
use names::Names;

pub use hold::OnLost;
// Public for the tests of this crate. Programs use `Documents::clean`.
#[doc(hidden)]
pub use names::document_of_leftover;
pub(crate) use names::target_of_temporary;

/// The largest age of the time of a living lock.
pub const STALE_AFTER: Duration = Duration::from_secs(10);

/// The time for which a lock must be seen unchanged before it is stale whatever its time. The time
/// of a Node process's first lock is up to a second in the future, and its age counts from then.
const UNCHANGED_FOR: Duration = Duration::from_secs(12);

/// The interval at which a holder sets the time of its lock anew.
const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// A lock that Node programs see. A drop releases it.
#[must_use = "dropping the lock releases it"]
pub struct NodeLock {
    hold: Arc<Hold>,
    _log: Logged,
    /// The fork generation in which the lock was taken: a child that inherits the lock must not
    /// release it.
    taken_in: u32,
}

impl NodeLock {
    /// Waits for the lock of `document`, the directory `document` + `.lock`, until the deadline or
    /// until it is cancelled.
    ///
    /// The caller holds Tenure's own exclusive lock of the document. A symbolic link and its target
    /// have a lock each: Node programs take the one or the other (option `realpath`), so a caller
    /// that must meet all of them takes both.
    ///
    /// `on_lost` is called once, with the reason, when the lock is found lost: by the thread that
    /// refreshes it, or by [`check`](Self::check).
    ///
    /// Past the deadline a stale lock is still taken over, which takes 100 ms.
    pub fn acquire(
        document: &Path,
        deadline: Instant,
        cancel: &Cancel,
        on_lost: OnLost,
    ) -> Result<Self> {
        let asked = Instant::now();
        let hold = acquire::acquire(Names::of(document)?, deadline, cancel)?;
        hold.tell_when_lost(on_lost);
        // The value is made first, so that a thread that cannot be started leaves no lock behind.
        let lock = Self {
            _log: Logged::acquired(hold.names().lock(), Mode::Write, Some(asked)),
            hold: Arc::new(hold),
            taken_in: platform::fork_generation(),
        };
        refresh::start(&lock.hold)?;
        Ok(lock)
    }

    /// Returns the directory that is the lock.
    pub fn path(&self) -> &Path {
        self.hold.names().lock()
    }

    /// Fails with [`Lost`](tenure_core::Error::Lost) if the lock is no longer ours, or too old to
    /// be trusted. A caller checks right before the protected write takes effect.
    pub fn check(&self) -> Result<()> {
        self.hold.verify()
    }

    /// Releases the lock, and fails if it was lost before; dropping it releases silently.
    pub fn release(self) -> Result<()> {
        self.end()
    }

    fn end(&self) -> Result<()> {
        if self.taken_in != platform::fork_generation() {
            return Ok(());
        }
        release::release(&self.hold)
    }
}

impl Drop for NodeLock {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Returns true if a Node program, or one of ours, seems to hold the lock of `document` now. That
/// may change before the caller knows, so only tests use this from outside.
#[doc(hidden)]
pub fn is_fresh(document: &Path) -> Result<bool> {
    let names = Names::of(document)?;
    // Anything but a directory is the lock of another kind of program, not of Node's.
    let is_directory = std::fs::symlink_metadata(names.lock()).is_ok_and(|found| found.is_dir());
    if !is_directory {
        return Ok(false);
    }
    let seen = directory::look(names.lock())?;
    Ok(seen.is_some_and(|seen| !stale::is_too_old(seen.modified)))
}
