//! Patterns for locks, as calls that programs on a shared database need again and again.
//!
//! Patterns that need nothing of PostgreSQL are in [`tenure_core::patterns`], and take
//! [`AdvisoryLocks::of`](crate::advisory::AdvisoryLocks::of) a namespace. This one needs
//! PostgreSQL:
//!
//! | call | when |
//! |---|---|
//! | [`once()`] | expensive work on a row is done by one caller; other callers do nothing meanwhile |

mod once;

pub use once::once;
pub use tenure_core::patterns::{
    EntityGuard, EntityLocks, SERIALISE_WAIT, Tally, for_each_unlocked, serialise, under,
};
