//! Every small state, every request: the invariants of the decision, proved by enumeration.
//!
//! From the empty state, every request of a few sessions is tried in every state that can be
//! reached, at two moments far enough apart that whatever ends by time within them ends
//! between them; and so is every death, and every claim of a job. All facts at once
//! would be too many states, so there are several [worlds](world::World), each with some of them.

mod endings;
mod line;
mod table;
mod world;
