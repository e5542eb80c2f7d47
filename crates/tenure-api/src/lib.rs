//! What Tenure can do, as types: a request and a response for each operation, and the failure that
//! any of them may have, as they go over a wire.
//!
//! An [`Operation`] has a name, such as `board.next`, and is carried out by `tenure-service`, in
//! this process or behind a server. Its JSON is what `--json` prints. This crate does no I/O, and a
//! client needs nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | [`operation`] | the trait, and the list of all operations |
//! | [`agents`] | coding agents: hook, ls, plan, apply |
//! | [`doctor`] | doctor, trust |
//! | [`failure`] | a failure as JSON shows it |
//! | [`leases`] | locks: acquire, renew, release, upgrade, downgrade, check, ls, break, audit |
//! | [`status`] | everything on one page |
//! | [`text`] | values that are text in JSON |
//!
//! # Limitations
//!
//! A type here promises the form of a request, not that it will be granted: who may do what is
//! checked where an operation is carried out.

pub mod agents;
pub mod doctor;
pub mod failure;
pub mod leases;
pub mod operation;
pub mod status;
pub mod text;

pub use failure::Failure;
pub use operation::{Described, Operation};
