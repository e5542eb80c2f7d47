//! Files that many processes share and that are never torn: synchronous, without a runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | [`document`] | JSON files: reading, transactions, fencing |
//! | [`node_lock`] | the lock of Node's proper-lockfile |
//! | [`publish`] | directories put in place whole: the half about files |
//!
//! Every call blocks its thread, as calls of [`tenure_lockfile`] do. Linux only.

pub mod document;
pub mod node_lock;
pub mod publish;

pub use tenure_core::Error;
pub use tenure_os::cancel::Cancel;
