//! Tenure on PostgreSQL: locks for many machines.
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | `address`, `tls` | the URL, and TLS as it asks for it |
//! | `connect` | one connection, and how it ends |
//! | `fault` | what errors of the database mean |
//! | `prove` | that no pooler shares sessions |
//! | `advisory` | the advisory lock service |
//!
//! # Guarantees
//!
//! - An advisory lock is held by one session at the server, on a connection nobody else uses, outside any transaction: commits
//!   and rollbacks of the application do not touch it.
//! - Whatever becomes of a request, of its future and of its process, the lock is freed, and a connection that is in doubt is never used again.
//! - A holder knows within 3 seconds that it is cut off, and at once that its connection ended.
//! - Tokens of a key only go up: after a crash, a failover and a restore, too, as long as the database's clock has not gone back behind them.
//! - Behind a pooler that shares sessions nothing is granted: it is refused when opened.
//! - Nothing shows a password.
//!
//! # Limitations
//!
//! - Two can hold an advisory lock while one that is cut off has not noticed, for at most 3 seconds: fence writes with the token.
//! - Other programs that use the same keys take part in the exclusion, and draw no token.
//! - Every key that was ever locked exclusively has a row in `tenure.advisory_tokens`.
//! - A name in 32 bits may meet another name; in 64 bits that does not happen in practice.
//! - Each lock in hand takes a connection of the database.

mod address;
mod advisory;
mod connect;
mod fault;
mod prove;
mod tls;

pub use address::Address;
pub use advisory::{
    AdvisoryLocks, DEFAULT_WAIT, Guard, GuardState, Key, LockEntry, Locks, Namespace, PoolState,
    Session, Settings, name_to_i32, name_to_i64,
};
