//! Proves the invariants of the decision: tries every request in every small state.
//!
//! From the empty state, every request of a few sessions is tried in every state that can be
//! reached, at two moments so far apart that everything with a time ends between them. Every death
//! of a session and every claim of a job is tried, too. All of these together make too many states,
//! so there are several [worlds](world::World), each with some of them.

mod endings;
mod line;
mod table;
mod world;
