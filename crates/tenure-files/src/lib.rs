//! Files and kernel locks of Tenure: synchronous, without a runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | [`FileLocker`] | locks on paths of your own, for threads |
//! | [`Documents`] | JSON files that are never torn: reading, transactions, fencing |
//! | [`Ledger`] | events that are never lost, and claims with one winner |
//! | `disk`, `replace` | the calls that must survive a crash; the one atomic replace |
//! | [`node_lock`] | the lock of Node's proper-lockfile |
//! | [`FileStore`] | the store: resources as lock files in a directory |
//! | `lockfile` | one lock file: the protocol, step by step |
//! | `local_queue` | the queue inside a process, and idle lock files |
//! | `interrupt`, `kernel_wait` | waits in the kernel that can be ended |
//! | `token_counter`, `log` | numbers that never go back; the lock log |
//! | [`filesystem`], [`clock`] | where locks can be trusted; the one clock |
//! | `platform` | the calls to the kernel that make locks, threads and signals |
//!
//! # Guarantees and limitations
//!
//! Those of the [file store](FileStore) are on the front page of its module: exclusion on
//! one machine, on local file systems, for as long as nobody removes a lock file. Linux only.

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
pub mod node_lock;
mod platform;
mod record_author;
mod replace;
mod store;
mod token_counter;

pub use document::{
    Content, DOCUMENT_BYTES_MAX, DOCUMENTS_MAX, Documents, Expect, Fence, Follow, Leftovers, Terms,
    Version, check_json, laid_out,
};
pub use ledger::{
    AppendTerms, CLAIM_TTL_MAX, CLAIM_TTL_MIN, Claim, ClaimToken, EVENT_BYTES_MAX, Event, Finding,
    FollowLedger, Ledger, Node, RemoveForeignLock, Verified,
};
pub use locker::{FileLocker, LockGuard, holders};
pub use lockfile::{Look, Record, look};
pub use replace::Durability;
pub use store::FileStore;
pub use tenure_core::Error;
