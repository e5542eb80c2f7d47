//! The database is deleted, or another takes its place, under those who use it.

mod answers;
mod copy;
mod kept;
mod threads;
