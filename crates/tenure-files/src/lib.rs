//! Files and kernel locks of Tenure: synchronous, without a runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | [`FileLocker`] | locks on paths of your own, for threads |
//! | [`FileStore`] | the store: resources as lock files in a directory |
//! | `lockfile` | one lock file: the protocol, step by step |
//! | `line` | the line inside a process, and kept descriptors |
//! | `interrupt`, `kernel_wait` | waits in the kernel that can be ended |
//! | `tokens`, `replace` | numbers that never go back; the one atomic replace |
//! | [`filesystem`], [`clock`] | where locks can be trusted; the one clock |
//! | `platform` | every call to the kernel |
//!
//! # Guarantees and limitations
//!
//! Those of the [file store](FileStore) are on the front page of its module: exclusion on
//! one machine, on local file systems, for as long as nobody removes a lock file. Linux only.

mod author;
pub mod clock;
pub mod filesystem;
mod hold;
mod interrupt;
mod kernel_wait;
mod line;
mod locker;
mod lockfile;
mod platform;
mod replace;
mod store;
mod tokens;

pub use locker::{FileLocker, LockGuard, holders};
pub use lockfile::{Look, Record, look};
pub use store::FileStore;
