//! The embedded store of Tenure: leases, sessions, waiters and the audit in one SQLite file.
//! No server, no daemon, no set-up.
//!
//! # Beside the database
//!
//! | file | what it is |
//! |---|---|
//! | `PATH`, `PATH-wal`, `PATH-shm` | the database, SQLite's log and its index |
//! | `PATH-anchor` | which file the database is, and tokens that never go back |
//! | `sessions/` | one locked file for each live session: the kernel's proof of life |
//! | `wake/` | one pipe for each session that waits |
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | `connection` | opening, transactions, the row budget, what errors mean |
//! | `schema` | the tables, and how older databases become newer ones |
//! | `anchor` | tokens, and what happens when the database is replaced |
//! | `session_file` | who is alive |
//! | `wake` | how a waiter is woken, and how it learns of a death |
//! | `platform` | every call to the kernel |
//!
//! # Guarantees
//!
//! - A session-bound lease ends by release, by the proved death of its session or by break, and
//!   by nothing else. A crash at any system call leaves a store that works.
//! - Tokens never go back: not after a crash or a power loss, not when the database is deleted
//!   or restored to an older copy.
//! - While a session holds leases in an older database, nothing is granted in one that took its
//!   place: not in a new file, not in an older copy written over the old file, not in what is left
//!   when the log is removed.
//! - No statement steps over more than 50,000 rows, except migrations and repairs.
//! - A database of a newer Tenure, or of another program, is refused and left untouched.
//!
//! # Limitations
//!
//! - Linux only, and local file systems only: others are refused.
//! - An older copy of database and anchor, both written over the files in place while they are in
//!   use, is noticed by holders within a second or so, and not at all by who comes in between:
//!   only tokens tell the two apart. Leave the anchor where it is: then it is safe.
//! - The same goes for a process that has two stores on one path, when the log is removed under it.
//! - A child that forks without `exec` must not use the store of its parent: it is refused.
//! - One writer at a time: a process that is stopped in the middle of a transaction holds up
//!   all others until it goes on or is killed.

mod anchor;
mod connection;
mod platform;
mod schema;
mod session_file;
mod store;
mod wake;

pub use store::SqliteStore;
