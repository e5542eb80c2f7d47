//! Tenure on PostgreSQL: locks for many machines.
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | `address`, `tls` | the URL, and TLS as it asks for it |
//! | `connect` | one connection, and how it ends |
//! | `fault` | errors of the database as errors of Tenure |
//! | `prove` | that no pooler shares sessions |
//! | [`advisory`] | the advisory lock service |
//! | [`patterns`] | how locks are used, as calls |
//! | `schema` | the tables, made by versioned migrations |
//! | `store` | the lease store |
//!
//! # Guarantees
//!
//! The lease store guarantees:
//!
//! - A lease is held by one session, or by as many as its mode and capacity allow, for as long as
//!   it lasts by the clock of the database. It ends by release, by break, or when its time is over
//!   and another session wants it.
//! - A grant is on disk before its caller is told. A request is carried out once: an answer that is
//!   lost is found again.
//! - Waiters are served in the order they came, whatever machine they are on, and woken by the very
//!   transaction that grants.
//! - A future that is dropped leaves neither lock nor waiter, wherever it was dropped.
//! - Tokens of a resource only go up: after a crash, a failover and a restore, too, as long as the
//!   database's clock has not gone back behind them.
//! - Taking a lease that no other session wants is one round trip, and so is giving it back.
//!
//! The advisory lock service guarantees:
//!
//! - An advisory lock is held by one session at the server, on a connection that nothing else uses,
//!   outside any transaction: commits and rollbacks of the application do not touch it.
//! - The lock is freed whatever becomes of a request, its future or its process, and a connection
//!   that is in doubt is never used again.
//! - A holder learns within 3 seconds that it is cut off, and at once that its connection ended.
//! - Tokens of a key only go up: after a crash, a failover and a restore, too, as long as the
//!   database's clock has not gone back behind them.
//!
//! Both guarantee:
//!
//! - Nothing is granted behind a pooler that shares sessions: opening the store or the service
//!   fails.
//! - Nothing shows a password.
//!
//! # Limitations
//!
//! - Two can hold a lease if a holder goes on when its time is over, or after a forward step of the
//!   database's clock: fence writes with the token.
//! - A process that is cut off or stopped for 15 seconds loses its places in line, and asks anew.
//! - Clean-up after a drop runs in the runtime the store was opened in. If that has ended, leases
//!   run out instead.
//! - Every resource that was ever locked has a row in `tenure.resources`.
//! - Two can hold an advisory lock for at most 3 seconds, while a holder that is cut off has not
//!   noticed: fence writes with the token.
//! - Other programs that use the same keys take part in the exclusion, and draw no token.
//! - The token of a shared advisory lock may belong to a later exclusive grant of another key:
//!   tokens are only compared within their key.
//! - A name in 32 bits may meet another name; in 64 bits that does not happen in practice.
//! - Each advisory lock that is held takes a connection of the database.

mod address;
pub mod advisory;
mod connect;
mod fault;
pub mod patterns;
mod prove;
mod record_row;
mod schema;
mod store;
mod tls;

pub use address::Address;
pub use record_row::RecordRow;
pub use store::{OpenOptions, PostgresStore};
