//! Lock files under kernel locks, with timeouts, fairness and records: synchronous, without a
//! runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | [`FileLocker`] | locks on paths of your own, for threads |
//! | [`FileStore`] | the store: resources as lock files in a directory |
//! | `lockfile` | one lock file: the protocol, step by step |
//! | `local_queue` | the queue inside a process, and idle lock files |
//! | `interrupt`, `kernel_wait` | waits in the kernel that can be ended |
//! | `token_counter`, [`log`] | numbers that never go back; the lock log |
//!
//! # What blocks, what can be cancelled, and a signal
//!
//! Every call blocks its thread: on the disk, and on a lock until its timeout. In async code, call
//! it from `spawn_blocking`.
//!
//! [`FileLocker::cancelled_by`] ends the waits in the queue of this process, in the kernel, and for
//! an upgrade. Dropping a future of the [`FileStore`] ends them, too, and leaves nothing of the
//! wait, except a thread that syncs: the drop does not wait for that thread, which gives back what
//! it has when it is done.
//!
//! The kernel's waits for a lock have no timeout, so a wait that is over is ended by SIGURG, sent
//! to the thread that waits. Where the program has no handler of its own, one that does nothing is
//! installed when a wait begins; a handler of the program stays, and is called. Either way the
//! signal no longer restarts system calls (`SA_RESTART`), and stays unblocked in threads that have
//! waited. If a program sets SIGURG to be ignored while a thread waits, that wait misses its
//! deadline.
//!
//! # Guarantees and limitations
//!
//! The limitations of the [file store](FileStore) are on the front page of its module: exclusion on
//! one machine, on local file systems, for as long as no lock file is removed. Linux only.

mod caller;
mod hold;
mod interrupt;
mod kernel_wait;
mod local_queue;
mod locker;
mod lockfile;
pub mod log;
mod record_author;
mod store;
mod token_counter;

pub use caller::FileCaller;
pub use locker::{BriefGuard, FileLocker, FlockHolder, LockGuard, holders, resource_of, strangers};
// The record in a lock file, for the tests of this crate: programs use `holders`.
#[doc(hidden)]
pub use lockfile::{Look, Record, look};
pub use store::FileStore;
pub use tenure_os::cancel::Cancel;
