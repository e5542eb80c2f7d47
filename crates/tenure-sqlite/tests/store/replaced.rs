//! The database is deleted, or another takes its place, while sessions use it.

mod answers;
mod copy;
mod kept;
mod threads;
