//! The words and rules of Tenure.
//!
//! Everything that decides who may hold what is here, and nothing that touches
//! the world: this crate does no I/O, starts no thread and never reads a clock.
//! Times, ids and random numbers are passed in.
//!
//! | module | what it holds |
//! |---|---|
//! | [`resource`], [`owner`], [`id`], [`token`], [`time`] | the words, each a checked type |
//! | [`mode`] | the three modes and the one conflict matrix |
//! | [`order`] | the global order and sorted lock sets |
//! | [`mod@decide`] | the one decision: conflict, queue, upgrade |
//! | [`lease`], [`request`], [`store`], [`leases`] | what a store is asked and what it answers |
//! | [`page`] | where a page of leases begins, and how far a query reaches |
//! | [`audit`] | the record of who did what to a lock |
//! | [`retry`] | how often and how long passing faults are tried again |
//! | [`error`] | every way it can go wrong, and the class each belongs to |
//!
//! # Limitations
//!
//! Waiting, waking and durability are promises of a store, not of this crate.

pub mod audit;
pub mod decide;
pub mod duration;
pub mod error;
pub mod id;
pub mod lease;
pub mod leases;
pub mod mode;
pub mod order;
pub mod owner;
pub mod page;
pub mod request;
pub mod resource;
pub mod retry;
pub mod store;
pub mod time;
pub mod token;

pub use error::{Class, Error, Place, Result};
pub use id::{IdempotenceKey, LeaseId, SessionId};
pub use lease::{Binding, Lease, LeaseState};
pub use leases::LeaseStore;
pub use mode::Mode;
pub use order::{LockSet, Ranking};
pub use owner::Owner;
pub use page::Cursor;
pub use request::{Asker, Request, UpgradeRequest};
pub use resource::Resource;
pub use retry::RetryPolicy;
pub use store::{Capabilities, Examined, Listing, Query, Reply, Store};
pub use time::Timestamp;
pub use token::Token;
