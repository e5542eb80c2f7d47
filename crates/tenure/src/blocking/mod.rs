//! Keeper, sessions and guards without `async`: for programs without a runtime, and for code that
//! must block inside one.
//!
//! A [`Keeper`] owns a small runtime, which a thread of its own drives. A call runs on the thread
//! of its caller, and parks it while there is nothing to do. The caller may be inside another
//! runtime: the call then blocks that thread of it, as any blocking call does.
//!
//! ```
//! use tenure::{Mode, Options, Owner, Resource, SessionOptions, blocking};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let keeper = blocking::Keeper::open("memory:")?;
//! let session = keeper.session(SessionOptions::new(Owner::parse("ana@desk")?));
//! let guard = session.acquire(&Resource::parse("build")?, Mode::Write, &Options::default())?;
//! drop(guard); // released when drop returns
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Dropping a guard releases before `drop` returns.
//! - The thread ends with the last keeper, session or guard that uses it.
//!
//! # Limitations
//!
//! - A blocked call cannot be cancelled, only limited by its wait.

mod guard;
mod keeper;
mod leases;
mod thread;

pub use guard::{Guard, ReleaseError};
pub use keeper::{Keeper, Session};
