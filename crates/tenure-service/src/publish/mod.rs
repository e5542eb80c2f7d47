//! Publish: a directory put in place whole, and a look at what is there.
//!
//! | file | what it holds |
//! |---|---|
//! | `put` | the lease, the publish under it, its release, and then the removal of what was there before |
//! | `lease` | the lease that a publish works under |
//! | `progress` | tells the observer how far the copy is |
//! | `verify`, `history` | a look at what was published |
//!
//! The steps, and what a crash leaves, are in `tenure_work::publish`.

mod history;
mod lease;
mod progress;
mod put;
mod verify;
