//! The embedded store of Tenure: leases, sessions, waiters and the audit in one SQLite file.
//! No server, no daemon, no set-up.
//!
//! # Beside the database
//!
//! | file | what it is |
//! |---|---|
//! | `PATH`, `PATH-wal`, `PATH-shm` | the database, SQLite's log and its index |
//! | `PATH-anchor` | the identity of the database's file, and tokens that never go back |
//! | `sessions/` | one locked file for each live session: the kernel's proof of life |
//! | `wake/` | one pipe for each session that waits |
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | `connection` | opening, transactions, statements, the meaning of errors |
//! | `schema` | the tables, and the migration of older databases |
//! | `anchor` | tokens, and the replacement of a database |
//! | `session_file` | the proof that a session is alive or dead |
//! | `wake` | waking a waiter, and telling it of a death |
//! | `private` | a store that others may write is refused |
//! | `platform` | every call to the kernel |
//!
//! # Guarantees
//!
//! - A session-bound lease ends by release, by the proved death of its session or by break, and
//!   by nothing else. A crash at any system call leaves a store that works.
//! - Tokens never go back: not after a crash or a power loss, not when the database is deleted
//!   or restored to an older copy.
//! - While a session of an older database is alive, nothing is granted in a file that took its
//!   place.
//! - Every statement finds its rows by an index, and none answers with more than 50,000.
//! - A database of a newer Tenure, or of another program, is refused and left untouched.
//! - A database is refused if others than its user and root may write it, its directory, or
//!   anything beside it.
//! - A store that may be read and not written, as on a read-only disk, is shown with all that is
//!   committed, whether it is in use or at rest. Nothing in it is changed (`connection`).
//!
//! # Limitations
//!
//! - Linux only, and local file systems only: others are refused.
//! - An older copy written over a database in use, into the same file, is not detected: what was
//!   granted since the copy may be granted again, under a higher token. Restore only when no
//!   process uses the store (`tenure doctor` or `tenure ls` shows those that do), and leave the
//!   anchor where it is: it keeps tokens from going back.
//! - A log that is removed while it is in use is noticed by holders within about a second. Until
//!   then another process may be granted the same, under a higher token.
//! - A child that forks without `exec` must not use the store of its parent: it is refused.
//! - One writer at a time: a process that is stopped in the middle of a transaction holds up
//!   all others until it goes on or is killed.

mod anchor;
mod connection;
mod platform;
mod private;
mod schema;
mod session_file;
mod store;
mod wake;

pub use store::{OpenOptions, SqliteStore};
