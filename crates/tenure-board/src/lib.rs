//! The board: issues in plain JSON files that many processes create, change and claim at once.
//!
//! ```
//! # fn main() -> Result<(), tenure_core::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path().join("board");
//! use std::time::Duration;
//! use tenure_board::{Board, NewIssue};
//!
//! Board::init(&directory)?;
//! let board = Board::open(&directory, Duration::from_secs(5))?;
//! let issue = board.create(NewIssue::titled("fix the login"))?;
//! board.update(&issue.id, |issue| {
//!     issue.priority = 1;
//!     Ok(())
//! })?;
//! let claimed = board.claim(&issue.id, None)?;
//! board.done(&issue.id, claimed.claim.map(|claim| claim.token))?;
//! # Ok(())
//! # }
//! ```
//!
//! # On disk
//!
//! | file | what it holds |
//! |---|---|
//! | `index.json` | `schema_version`, `all_ids`, `deleted_ids` |
//! | `issues/ID.json` | one issue; fields that are not known are kept |
//! | `gates.json` | the gates that are defined, and who may pass each |
//! | `events.jsonl` | the events, one object a line; only added to |
//! | `.index.lock`, `.gates.lock`, `issues/ID.lock`, `.events.lock` | kernel locks, never removed |
//! | `.pending/UUID.json` | changes whose files are not known to be synced yet |
//! | `.pending/UUID.done` | such a change is finished: it needs nothing before a power loss |
//! | `.pending/durable` | the names of `.pending` and of the index are synced |
//! | `.pending.lock` | the kernel lock of the process that syncs for all |
//! | `.ready` | a cache: the issues that `next` would hand out, at an offset of `events.jsonl` |
//!
//! Locks are taken in the one order of the core: index, gates, issues by id, events.
//!
//! | operation | index | gates | issue | events |
//! |---|---|---|---|---|
//! | list | shared | | | |
//! | show | | | shared | |
//! | update, note, claim, renew, release, done, reopen | | | exclusive | a moment |
//! | gate pass, gate fail | | shared | exclusive | a moment |
//! | create | exclusive | shared | exclusive | a moment |
//! | delete, depend | exclusive | | exclusive | a moment |
//! | gate define | | exclusive | | a moment |
//!
//! Every change of dependencies locks the index exclusively, so two halves of a cycle cannot pass
//! each other. The issues that an issue depends on are read without a lock: a file is replaced
//! whole, and no reader sees content that is not committed.
//!
//! | module | what it holds |
//! |---|---|
//! | `names`, `issue`, `registry` | which file is what; an issue; the index and the gates |
//! | `decide` | the one decision on claims, dependencies and gates, a table |
//! | `lock` | the locks of an operation, in order |
//! | `change`, `pending` | one change, all of it or none: the steps below; its record |
//! | `settle`, `images` | finishes what dead processes and power losses left |
//! | `checkpoint` | syncs for many changes together |
//! | `log` | `events.jsonl`: lines, torn lines, following |
//! | `create`, `edit`, `claim`, `read` | the operations |
//! | `next`, `ready` | the next issue; the cache that finds it |
//! | `init` | a new board |
//! | `leftovers` | temporary files of killed processes |
//! | `verify`, `conflict` | faults, and the repair of some; what a merge of git leaves |
//!
//! # One change, step by step
//!
//! 1. Once for each process: look for pending changes of an earlier boot, and recover from the
//!    power loss (below).
//! 2. Lock what the table says, in order, within one wait. *Crash:* the kernel unlocks.
//! 3. Finish pending changes that are not marked as finished and whose author is dead: those whose
//!    locks are held here, and, for a reader or a holder of the index, those whose locks are free.
//!    *Race:* a live author holds its locks from here to step 7, so that a free lock has no live
//!    author. Temporary files of parts that are held exclusively here have no author any more, and
//!    are removed. If only some locks of a change are free, the files under those are put right,
//!    and its line is left to a process that gets all; if the log is locked, its line is added in
//!    step 7, or by the next process. First the records of these changes and `.pending` are synced:
//!    their author may have been killed before the second sync of step 5.
//! 4. Read, decide. *A refusal or an error:* nothing has happened.
//! 5. Write `.pending/UUID.json`: the new text of issue, index and gates, the hash of each before
//!    it, the line for the log, the end of the last whole line of the log, the boot. Check that a
//!    file of this process may have the owners of the files that step 6 replaces; if not, nothing
//!    has happened. Rename the record to its name, sync the directory, sync the record: in this
//!    order one commit of the journal holds both. **This is the commit.** *Crash before the
//!    rename:* nothing happened; a temporary file stays, and the next holder of the lock that its
//!    name tells removes it. *Crash before the second sync:* the process that finishes the change
//!    syncs both first. *Power loss before it:* the change happened or not, and was not
//!    acknowledged. A torn record, which is empty, holds zeros or is a beginning, did not happen.
//!    *A sync fails:* the record is removed, durably, and nothing has happened.
//! 6. Replace issue, index and gates by a rename, without a sync. *Crash:* the next process that
//!    locks them does it in step 3.
//! 7. Lock the log, add the line, unlock it, make `.pending/UUID.done`, unlock everything, answer.
//!    *Crash before the line:* as in step 6. *Crash inside of it:* the next process that adds a
//!    line first cuts the half off. *Crash before the mark:* the change is finished again, which
//!    finds everything there. *The log stays locked:* the change is made, and answered; it is not
//!    marked, so that the next process adds its line. The mark is beside the log, not in it: git
//!    may take the log back, and the change must not be made again then.
//! 8. If 32 changes are pending, or the board is in a work tree of git, which may take files back
//!    at any time: checkpoint. Under `.pending.lock`, for the changes that are marked: sync each of
//!    their files, the log and the directories, then remove the changes from `.pending`, each
//!    before its mark. *Crash:* they stay, or some of them, or a mark alone, which the next
//!    checkpoint removes. *Power loss after the removal:* some come back, and are recognised as
//!    done. *Race:* a file that is replaced meanwhile has a pending change of its own, which is not
//!    among these. Records that were never committed are removed, too, where the lock that their
//!    name tells is free.
//!
//! # A new board
//!
//! The directories above are synced, `issues`, gates and log are put in place, the directory is
//! synced, and then the index is: with it, the board is there. *Race:* no existing file is
//! replaced, so several processes may do this at once, and one of them may have gone on. *Crash:*
//! the next process makes the missing files. *Crash before the name of the index is synced:* the
//! first change syncs it before its own commit, and makes `.pending/durable`, so that the next need
//! not.
//!
//! # After a power loss
//!
//! A pending change of another boot, marked or not, says that there may have been a power loss:
//! content that was not synced may be lost or torn, and all of it is in `.pending`. The first
//! process to come waits for the locks of index, gates and all issues concerned, then:
//!
//! 1. Each file that is as it was before one of its changes, or torn, becomes what the newest
//!    change says. A torn file is empty, holds zeros, or is a beginning of the new text. Any other
//!    content was written by another program, and stays. A deleted issue does not come back.
//! 2. The log is cut at its first torn line after the length that the oldest change found, and the
//!    lines that are missing are added.
//! 3. Everything is synced, and the changes are removed from `.pending`. *Crash anywhere:* the next
//!    process begins again.
//!
//! # Claims
//!
//! A claim is part of its issue. In the boot of the claim, the time since boot decides if it is
//! over; after a reboot the clock on the wall does. Its token is the last one of the issue plus
//! one, or the clock in milliseconds if that is higher.
//!
//! # What can be cancelled
//!
//! The [`Cancel`] of a caller ends the waits of step 2 and of the recovery, the wait for events,
//! and the reading of all issues. A cancelled call releases its locks, and nothing has happened.
//! From step 5 on, or from step 1 of a recovery, a call completes and tells its outcome: its wait
//! for the log is not cancelled. The pauses between tries of a passing fault are not cancelled
//! either. They are short, and the next try meets the cancellation where it would wait.
//!
//! # Guarantees
//!
//! - A change that was acknowledged is durable, and is not lost to any other change. A reader sees
//!   an issue before a change or after it.
//! - A claim has one winner. Renew, release and done with an older token are refused, under the
//!   lock of the issue.
//! - There is no way to load an issue, drop its lock and save it.
//! - Dependencies never form a circle, even if many processes add them at once.
//! - A broken file is named, and all others are usable.
//!
//! # Limitations
//!
//! - A board works on one machine and a local file system, for one user and root, and programs that
//!   take the locks.
//! - An edit by hand is found by the next process that reads the file, but `next` may learn of it
//!   only when nothing else is ready. If a process is killed between steps 5 and 6 and the file is
//!   edited before the next command, the edit is kept and the change of the killed process is not.
//! - A process that is killed while it makes the board may leave a hidden file that ends with
//!   `.tmp`. The file was written without a lock, so it counts as a leftover only when it is an
//!   hour old; a repair then removes it.
//! - A merge of git that leaves conflict markers in `gates.json`, the log or an issue needs a
//!   person. In the index, a repair puts both sides together: an issue that one side deleted stays
//!   deleted, though the other changed it.
//! - A board of the tracker `jit` is known by its schema or by its oldest issue; an empty board of
//!   one of its first versions takes issues.
//! - If a process is killed between steps 5 and 8, git takes its files back, and the machine is
//!   booted anew before the next command, its change is made again on what git put there.
//! - In an unknown field, a number that a double cannot hold is rounded when the issue is changed.
//! - Linux tells once that a sync failed. Where that happens in a checkpoint, the change stays
//!   pending, but a later checkpoint may believe that it is saved. A process that finishes the
//!   change of one that was killed while it synced may believe so, too.
//! - An issue has at most 1 MiB, and a claim fits beside that; a note on the end of a claim that
//!   does not fit is left out. A board is read whole where nothing is ready, and when an issue is
//!   deleted.

mod change;
mod checkpoint;
mod claim;
mod conflict;
#[cfg(test)]
mod crashes;
mod create;
mod decide;
mod edit;
mod error;
mod images;
mod init;
pub mod issue;
mod leftovers;
mod lock;
pub mod log;
mod names;
mod next;
mod pending;
mod read;
mod ready;
mod registry;
mod settle;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use tenure_core::{Error, Owner, Result, RetryPolicy, Timestamp};
use tenure_lockfile::FileLocker;
use tenure_os::clock;
use tenure_os::disk::{Disk, RealDisk};

pub use claim::{BOARD_CLAIM_TTL, BOARD_CLAIM_TTL_MAX, BOARD_CLAIM_TTL_MIN};
pub use error::BoardError;
pub use next::{Next, Take, Unready};
pub use read::IssueList;
pub use tenure_api::Finding;
pub use tenure_api::board::{Blocked, GateBy, NewIssue, Unreadable, VerifiedBoard};
pub use tenure_lockfile::FileCaller;
pub use tenure_os::cancel::Cancel;

use issue::IssueId;
use names::Names;

/// The number of pending changes at which their files are synced together.
const PENDING_MAX: usize = 32;

/// A board. All threads and callers of a program can share one.
///
/// A clone shares the queues and open lock files, and so does the board of a caller (see
/// [`for_caller`](Self::for_caller)).
#[derive(Clone)]
pub struct Board {
    names: Names,
    locker: FileLocker,
    owner: Owner,
    /// True if the owner is a program, which may not pass gates of people.
    is_automated: bool,
    retry: RetryPolicy,
    disk: Arc<dyn Disk>,
    /// The number of changes that were pending at the last look.
    pending_seen: Arc<AtomicUsize>,
    /// True once no change of an earlier boot is pending.
    is_recovered: Arc<AtomicBool>,
    /// Called with messages for people.
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called when the waiting for locks is over.
    on_locked: Arc<dyn Fn() + Send + Sync>,
    now: fn() -> Timestamp,
    boot_now: fn() -> u64,
    boot_id: String,
    new_uuid: fn() -> String,
    pending_max: usize,
}

impl Board {
    /// Opens the board in a directory, in the name of this process. Waits end after `wait`.
    pub fn open(directory: &Path, wait: Duration) -> Result<Self> {
        let mut board = Self::on(directory, FileLocker::new(wait), Arc::new(RealDisk))?;
        if !board.names.index().is_file() {
            let path = directory.to_owned();
            return Err(BoardError::Missing { path }.into());
        }
        if is_in_work_tree(board.names.root()) {
            board.pending_max = 0;
        }
        Ok(board)
    }

    fn on(directory: &Path, locker: FileLocker, disk: Arc<dyn Disk>) -> Result<Self> {
        let root = std::path::absolute(directory);
        let root = root.map_err(|source| Error::io("find", directory, source))?;
        Ok(Self {
            names: Names::new(root),
            owner: locker.owner().clone(),
            locker: locker.with(names::lock_name, |_| Ok(())),
            is_automated: false,
            retry: RetryPolicy::default(),
            disk,
            pending_seen: Arc::default(),
            is_recovered: Arc::default(),
            tell: Arc::new(|_| ()),
            on_locked: Arc::new(|| ()),
            now: clock::now,
            boot_now: clock::boot_now,
            boot_id: clock::boot_id()?.to_owned(),
            new_uuid: pending::new_uuid,
            pending_max: PENDING_MAX,
        })
    }

    /// Returns the board for a caller, whose owner claims issues. It shares queues, open lock files
    /// and all knowledge of the directory with this one.
    pub fn for_caller(&self, caller: &FileCaller) -> Self {
        Self {
            owner: caller.asker.owner.clone(),
            is_automated: caller.is_automated,
            on_locked: Arc::clone(&caller.on_locked),
            locker: self.locker.for_caller(caller),
            ..self.clone()
        }
    }

    /// Sets the number of tries after passing faults, and the pauses between them.
    pub fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
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

    /// Returns the directory of the board.
    pub fn directory(&self) -> &Path {
        self.names.root()
    }

    /// Returns the files that an operation on an issue may wait for, each with its lock, for
    /// [`holders`](tenure_lockfile::holders).
    pub fn lock_files(&self, issue: Option<&IssueId>) -> Vec<(PathBuf, PathBuf)> {
        let part = issue.map(|id| names::Part::Issue(id.clone()));
        let parts = [names::Part::Index, names::Part::Gates];
        let parts = parts.into_iter().chain(part).chain([names::Part::Events]);
        parts
            .map(|part| (self.names.file(&part), self.names.lock(&part)))
            .collect()
    }
}

/// Returns true for a directory in a work tree of git, and false for one in a git directory.
fn is_in_work_tree(directory: &Path) -> bool {
    let is_git = |name: &std::ffi::OsStr| name == ".git";
    directory
        .ancestors()
        .take_while(|above| !above.file_name().is_some_and(is_git))
        .any(|above| above.join(".git").exists())
}
