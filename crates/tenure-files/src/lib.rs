//! Files and kernel locks of Tenure: synchronous, without a runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | [`FileLocker`] | locks on paths of your own, for threads |
//! | [`Documents`] | JSON files that are never torn: reading, transactions, fencing |
//! | [`Ledger`] | events that are never lost, and claims with one winner |
//! | [`Board`] | issues in plain files that many create, change and claim at once |
//! | [`publish`] | directories put in place whole: the half that is about files |
//! | `disk`, `replace` | the calls that must survive a crash; the one atomic replace |
//! | [`node_lock`] | the lock of Node's proper-lockfile |
//! | [`FileStore`] | the store: resources as lock files in a directory |
//! | `lockfile` | one lock file: the protocol, step by step |
//! | `local_queue` | the queue inside a process, and idle lock files |
//! | `interrupt`, `kernel_wait` | waits in the kernel that can be ended |
//! | `token_counter`, `log` | numbers that never go back; the lock log |
//! | [`filesystem`], [`clock`], [`machine`] | where locks can be trusted; the one clock; which machine this is |
//! | `platform` | the calls to the kernel that make locks, threads and signals |
//!
//! # What blocks, and a signal
//!
//! Every call blocks its thread: on the disk, and on a lock until its timeout. In async code, call
//! it from `spawn_blocking`.
//!
//! The kernel's waits for a lock have no timeout, so a wait that is over is ended by SIGURG, sent to
//! the thread that waits. Where the program has no handler of its own, one that does nothing is
//! installed when a wait begins; a handler of the program stays, and is called. Either way the
//! signal no longer restarts system calls (`SA_RESTART`), and stays unblocked in threads that have
//! waited. A program that sets SIGURG to be ignored while a thread waits makes that wait miss its
//! deadline.
//!
//! # Guarantees and limitations
//!
//! The limitations of the [file store](FileStore) are on the front page of its module: exclusion on
//! one machine, on local file systems, for as long as nobody removes a lock file. Linux only.

mod board;
pub mod clock;
#[cfg(test)]
mod crashes;
mod disk;
mod document;
pub mod filesystem;
mod hold;
mod interrupt;
mod kernel_wait;
mod ledger;
mod local_queue;
mod locker;
mod lockfile;
mod log;
mod look;
pub mod machine;
pub mod node_lock;
mod plain_name;
#[doc(hidden)]
pub mod platform;
pub mod publish;
pub mod random;
mod record_author;
mod replace;
pub mod retry;
mod store;
mod token_counter;

pub use board::{
    BOARD_CLAIM_TTL, BOARD_CLAIM_TTL_MAX, BOARD_CLAIM_TTL_MIN, Blocked, Board, BoardEvent,
    EventCursor, GateBy, GateState, Issue, IssueClaim, IssueId, IssueList, IssueState, NewIssue,
    Next, Note, PRIORITY_DEFAULT, Take, Unreadable, Unready,
};
pub use document::{
    Content, DOCUMENT_BYTES_MAX, DOCUMENTS_MAX, Documents, Expect, Fence, Follow, Terms, Version,
    check_json, laid_out, on_one_line,
};
pub use ledger::{
    AppendTerms, CLAIM_TTL_MAX, CLAIM_TTL_MIN, Claim, ClaimToken, EVENT_BYTES_MAX, Event, Finding,
    FollowLedger, Ledger, Node, RemoveForeignLock, Verified,
};
pub use locker::{FileLocker, FlockHolder, LockGuard, holders, resource_of, strangers};
pub use replace::replace_file;
// The record in a lock file, for the tests of this crate: programs use `holders`.
#[doc(hidden)]
pub use lockfile::{Look, Record, look};
pub use store::FileStore;
pub use tenure_core::Error;
