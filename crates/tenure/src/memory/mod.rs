//! The store within one process: `decide` over plain maps.
//!
//! It is the in-process readers/writer lock, and the model other stores are compared with.
//!
//! # Guarantees
//!
//! - First come, first served: readers that stand together enter together, none overtakes a
//!   waiting writer, a waiting upgrade goes first. Only the one who is granted wakes.
//! - Slots: a request that states a capacity is granted while fewer than that hold the resource.
//! - A wait that is dropped leaves the line; if it was granted in that instant, the lock is
//!   given back before the drop returns. So a grant from the line is held at once, and never
//!   has to be taken up.
//! - Tokens of a resource never go back. They are drawn from one counter for the whole store,
//!   so that a resource nobody holds or awaits takes no memory; the tokens of one resource
//!   have gaps, and a read of a resource that was free carries the counter's value, which is
//!   at least the resource's own.
//!
//! # Limitations
//!
//! - Other processes do not meet here, and every store opened as `memory:` is its own.
//! - Leases end with the process; so do tokens.
//! - Every lease is bound to its session: none has time of its own, can be broken or recovered,
//!   or leaves an entry in an audit.
//! - The current token of a resource that nobody holds or awaits is the counter's value too. A
//!   token of a lease that is over may count as fenced when only other resources were granted
//!   since; that of a lease that is held does not.

mod acquire;
mod change;
mod list;
mod release;
mod shelf;
mod store;
mod upgrade;

pub use store::MemoryStore;
