//! The operations of Tenure as types: a request and a response for each, and the failure that any
//! of them may have, as they go over a wire.
//!
//! An [`Operation`] has a name, such as `board.next`, and is carried out by `tenure-service`, in
//! this process or behind a server. Its JSON is what `--json` prints. This crate does no I/O, and a
//! client needs nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | [`operation`] | the trait, and the list of all operations |
//! | [`advisory`] | advisory locks of PostgreSQL: ls |
//! | [`agents`] | coding agents: hook, ls, plan, apply |
//! | [`board`] | the board: issues, claims, gates, events |
//! | [`doc`] | documents: read, write, update, clean |
//! | [`doctor`] | doctor, trust |
//! | [`failure`] | a failure as JSON shows it |
//! | [`leases`] | locks: acquire, renew, release, upgrade, downgrade, check, ls, recover, break, audit |
//! | [`ledger`] | ledgers: init, append, log, show, verify, claim, release, claims, reap |
//! | [`op`] | named kinds of work: ls, show |
//! | [`publish`] | directories put in place whole: put, verify, history |
//! | [`status`] | everything on one page |
//! | [`text`] | values that are text in JSON |
//!
//! # Limitations
//!
//! A type here promises the form of a request, not that it will be granted: who may do what is
//! checked where an operation is carried out.

pub mod advisory;
pub mod agents;
pub mod board;
pub mod doc;
pub mod doctor;
pub mod failure;
pub mod finding;
pub mod jobs;
pub mod leases;
pub mod ledger;
pub mod op;
pub mod operation;
pub mod publish;
pub mod status;
pub mod text;

pub use failure::Failure;
pub use finding::Finding;
pub use operation::{Described, Operation};
