//! Locks for many processes that share state: the crate programs use.
//!
//! A [`Keeper`] opens a store, a [`Session`] asks for locks, and a [`Guard`] holds one
//! until it is released or dropped. The [`blocking`] front does the same for programs
//! without a runtime, and for code that must block inside one.
//!
//! `memory:` and `file:DIR` are always there; `sqlite:PATH` and `postgres://…` need the cargo
//! features `sqlite` and `postgres`, of which none is on by default. SQLite comes with its own copy
//! of the library, and a program can link only one.
//!
//! ```
//! use tenure::{Keeper, Mode, Options, Owner, Resource, SessionOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let keeper = Keeper::open("memory:").await?;
//! let session = keeper.session(SessionOptions::new(Owner::parse("ana@desk")?));
//! let build = Resource::parse("build")?;
//!
//! let guard = session.acquire(&build, Mode::Write, &Options::default()).await?;
//! assert!(guard.token().get() > 0);
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `keeper`, `settings`, `url` | opening a store, and how the rules are set |
//! | `session` | what a session holds and awaits, the order of locks, the one wait loop |
//! | [`leases`], `automated`, [`audit`] | leases that outlive their process; recovery, break, audit |
//! | [`records`] | rows above the locks, changed in one transaction with them |
//! | `guard`, `renewal` | a lock in hand, and how its loss is noticed |
//! | [`store_choice`], [`config`] | the choice of the store and its reason; settings of files and environment |
//! | [`patterns`] | patterns for locks, as calls |
//! | [`store`] | the traits and types for a store of one's own |
//! | [`memory`] | the store within one process |
//! | [`blocking`] | all of this without `async` |
//!
//! # Guards
//!
//! Every guard, here and of file locks, Node's locks and advisory locks, has `token`, `mode`,
//! `check` (is it known to be lost?) and a `release` that consumes it and tells whether it was held
//! to the end; dropping a guard releases, too.
//!
//! # What blocks
//!
//! - A call on the store `file:` opens and locks files on the thread that polls it; a wait for a
//!   kernel lock has a thread of its own, and SIGURG ends it when its time is over. If the program
//!   has no handler of SIGURG, an empty one is installed; see [`tenure_files`].
//! - A call on `sqlite:` runs its transaction, some tens of microseconds, on the thread that polls
//!   it. A durable step (leases that outlive their session, break, recovery) waits for the disk. On
//!   a multi-thread runtime the other tasks of the thread go on elsewhere meanwhile, which costs
//!   about 10 µs a step; tasks joined with it in one task wait. On a current-thread runtime
//!   everything waits.
//! - A call on `postgres:` blocks nothing.
//! - [`blocking`] blocks the calling thread, and never the runtime of the store.
//!
//! # Guarantees
//!
//! - A session asking for what it holds or awaits is refused at once; so is one asking for
//!   something ordered before that. Two sessions simply contend.
//! - A session waits for one lock or set at a time, whatever its tasks do: it never holds something
//!   while it awaits what is ordered before it, so no circle of waiters can form.
//! - Every wait has a deadline. A request that is not granted in time leaves neither lock nor
//!   waiter, also when the lock was granted in the very instant the time ran out.
//! - Every future can be dropped at any point: a dropped acquire holds nothing and waits for
//!   nothing, a dropped upgrade leaves the lease as it was, a dropped release still releases.
//! - A guard that is dropped, by a panic too, releases.
//! - A guard whose lease runs out by itself is renewed in the background, also while the rest of
//!   its set is awaited. If that fails, the guard is lost before another holder can have the lock,
//!   as long as its process runs. After a sleep it goes on only if no other holder took over.
//! - A set is taken whole or not at all. A set of leases of their own is bound in one step: their
//!   time runs from when all of them are there.
//!
//! # Limitations
//!
//! - The futures need a tokio runtime with time and I/O enabled, except in [`blocking`].
//! - A guard that is leaked (`std::mem::forget`) keeps its lock for as long as the store
//!   keeps the session alive.
//! - Order is only kept within one session and what it left as leases of their own. Code that holds
//!   locks in one session while it waits in another can build a circle. A request of a session or
//!   an automated owner that closes one is refused ([`Error::Deadlock`]), and one of a person is
//!   told of it; a circle through several stores ends with its deadlines.
//! - Where a store can lose a lock, the loss is noticed by a task of the runtime in which the
//!   session's first lock was granted; a runtime that is blocked notices nothing. Leases that run
//!   out by themselves (PostgreSQL) are renewed there, too: block it for longer than a third of a
//!   lease, and the guard may be lost.

mod automated;
pub mod blocking;
pub mod config;
mod entity_locks;
mod guard;
mod ids;
mod keeper;
pub mod leases;
mod log;
pub mod memory;
pub mod patterns;
pub mod records;
mod renewal;
mod retry;
mod session;
mod settings;
pub mod store_choice;
mod url;

pub use automated::{AUTOMATED_DEFAULT, AUTOMATED_WAIT_DEFAULT, Automated};
pub use entity_locks::KeeperLocks;
pub use guard::{Doubt, Guard, GuardState, ReleaseError};
pub use keeper::Keeper;
pub use session::{Options, OuterLease, Session, SessionOptions};
pub use settings::Settings;

pub use tenure_core::store::Waiting;
pub use tenure_core::{
    Binding, Class, Error, IdempotenceKey, Lease, LeaseId, LeaseState, Listing, LockContext,
    LockSet, Mode, Owner, Query, Ranking, Remedy, Resource, Result, RetryPolicy, SessionId,
    Timestamp, Token,
};
pub use tenure_core::{duration, request, shown_address, without_passwords};
pub use tenure_os::clock;

/// The audit: who did what to a lock.
pub mod audit {
    pub use tenure_core::audit::{Action, AuditPage, AuditQuery, Entry, as_reason};
}

/// The traits and types for a store of one's own; see
/// [`Keeper::from_store`](crate::Keeper::from_store).
pub mod store {
    pub use tenure_core::{Asker, Capabilities, Examined, Reply, Request, Store, UpgradeRequest};
}

/// Parts for the crates of Tenure and their tests alone. They may change with any version.
#[doc(hidden)]
pub mod internal {
    use std::sync::Arc;

    pub use tenure_core::LeaseStore;
    pub use tenure_core::leases::{KeyState, Keyed};

    /// Returns the store under a keeper, past all rules of the keeper.
    pub fn store(keeper: &crate::Keeper) -> &Arc<dyn tenure_core::Store> {
        keeper.store()
    }
}
