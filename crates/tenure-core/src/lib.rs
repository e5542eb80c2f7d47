//! The types and rules of Tenure.
//!
//! This crate decides who may hold what. It does no I/O, starts no thread and never reads a
//! clock: times, ids and random numbers are passed in.
//!
//! | module | what it holds |
//! |---|---|
//! | [`resource`], [`owner`], [`id`], [`token`], [`time`] | the basic values, each a checked type |
//! | [`mode`] | the three modes and the one conflict matrix |
//! | [`order`] | the global order and sorted lock sets |
//! | [`circles`] | requests that wait for each other |
//! | [`mod@decide`] | the decision on every request: conflicts, queue, upgrades |
//! | [`lease`], [`request`], [`store`], [`leases`] | the questions to a store, and its answers |
//! | [`records`] | rows above the locks, their changes, and the duties of a store for them |
//! | [`advisory`] | advisory locks of PostgreSQL, as a listing shows them |
//! | [`audit`] | the record of who did what to a lock |
//! | [`retry`] | the number of tries after passing faults, and the pauses between them |
//! | `secret` | removes passwords and other secrets from text that is shown |
//! | [`error`] | all errors, and the class of each |
//! | `internal` | parts for the crates of Tenure alone: rows as loaded, pages, the written order |
//!
//! # What grows
//!
//! Leases, listings, entries of the audit, errors and options are `#[non_exhaustive]`: a newer
//! version may add fields and variants, and programs that use them go on to compile. The questions
//! to a store and its answers (requests, capabilities, everything in [`mod@decide`]) are not: a
//! store that overlooks a new one must not compile. [`Mode`] and [`Binding`] do not grow.
//!
//! # Limitations
//!
//! This crate promises nothing about waiting, waking and durability: the stores do.

pub mod advisory;
pub mod audit;
pub mod circles;
pub mod decide;
pub mod duration;
pub mod error;
mod forward;
pub mod id;
#[doc(hidden)]
pub mod internal;
pub mod lease;
pub mod leases;
pub mod mode;
pub mod order;
pub mod owner;
pub mod patterns;
pub mod records;
pub mod request;
pub mod resource;
pub mod retry;
mod secret;
mod setters;
pub mod store;
mod text;
pub mod time;
pub mod token;

pub use error::{Class, Error, LockContext, Remedy, Result};
pub use id::{IdempotenceKey, LeaseId, SessionId};
pub use lease::{Binding, Lease, LeaseState};
pub use leases::LeaseStore;
pub use mode::Mode;
pub use order::{LockSet, Ranking};
pub use owner::Owner;
pub use records::RecordStore;
pub use request::{Asker, Request, UpgradeRequest};
pub use resource::Resource;
pub use retry::RetryPolicy;
pub use secret::{shown_address, without_passwords};
pub use store::{Capabilities, Examined, Listing, Query, Reply, Store};
pub use time::Timestamp;
pub use token::Token;
