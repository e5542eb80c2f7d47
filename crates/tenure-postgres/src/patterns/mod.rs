//! Patterns for locks, as calls that programs on a shared database need again and again.
//!
//! Patterns that need nothing of PostgreSQL are in [`tenure_core::patterns`], and take
//! [`AdvisoryLocks::of`](crate::advisory::AdvisoryLocks::of) a namespace. Here are two besides:
//!
//! | call | when |
//! |---|---|
//! | [`once()`] | expensive work on a row is done by one caller; other callers do nothing meanwhile |
//! | [`edit_file`] | a configuration file is read, merged and written as one step |

mod edit;
mod once;

pub use edit::edit_file;
pub use once::once;
pub use tenure_core::patterns::{
    EntityGuard, EntityLocks, SERIALISE_WAIT, Tally, deferred, for_each_unlocked, refreshed,
    serialise, under,
};
