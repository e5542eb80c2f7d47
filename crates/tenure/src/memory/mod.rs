//! The store within one process: `decide` over plain maps.
//!
//! It is the in-process readers/writer lock, and the model that other stores are compared with.
//!
//! # Guarantees
//!
//! - First come, first served: readers next to each other in line enter together, none overtakes a
//!   waiting writer, a waiting upgrade goes first. Only waiters that are granted wake.
//! - Slots: a request that states a capacity is granted while fewer than that hold the resource.
//! - A wait that is dropped leaves the line; if it was granted in that instant, the lock is given
//!   back before the drop returns. A grant from the line is therefore held at once, and needs no
//!   acceptance.
//! - Tokens of a resource never go back. They are drawn from one counter for the whole store, so
//!   the tokens of one resource have gaps.
//!
//! # Limitations
//!
//! - The store is not shared with other processes, and every store opened as `memory:` is separate.
//! - Leases end with the process; so do tokens.
//! - Every lease is bound to its session: none expires, can be broken or recovered, or leaves an
//!   entry in an audit.
//! - The newest token of every resource that was ever granted is kept for as long as the store.

mod acquire;
mod change;
mod list;
mod release;
mod store;
mod tables;
mod upgrade;

pub use store::MemoryStore;
