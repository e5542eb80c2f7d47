//! Patterns for locks, as calls that programs on a shared database need again and again.
//!
//! | call | when |
//! |---|---|
//! | [`serialise()`] | requests about one thing run one after the other, about others beside it |
//! | [`for_each_unlocked`] | a background worker goes through many things, and skips what somebody is at |
//! | [`deferred()`] | something is done later, if it is still to be done by then |
//! | [`once()`] | expensive work on a row is done by one caller; other callers do nothing meanwhile |
//! | [`refreshed()`] | nothing is decided on what was read before |
//! | [`edit_file`] | a configuration file is read, merged and written as one step |
//!
//! # Guarantees
//!
//! - Work under a lock that is lost is dropped at its next await, and the caller told.
//! - A lock is given back on every way out: a result, an error, a panic, a dropped future.
//! - What is re-read is read after the lock was granted, so it is what the holder before left.
//!
//! # Limitations
//!
//! - What work did before the loss of its lock stays done: fence what it writes with the token.

mod deferred;
mod each;
mod edit;
mod once;
mod refreshed;
mod serialise;

pub use deferred::deferred;
pub use each::{Tally, for_each_unlocked};
pub use edit::edit_file;
pub use once::once;
pub use refreshed::refreshed;
pub use serialise::{serialise, under};
