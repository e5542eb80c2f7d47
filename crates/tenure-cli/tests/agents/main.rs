//! Coding agents through their hooks: real processes, on SQLite and on a real PostgreSQL.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `hooks` | events at once, in crowds, malformed, while the store is away |
//! | `input` | bodies that are no proper JSON, and long ones |
//! | `programs` | the events that each program really sends, and the form of its answer |
//! | `guards` | heavy commands, and files that two agents edit |
//! | `edits` | the edit guard under kills and races, breaks and permissions |
//! | `own_leases` | agents that try to end leases of others |
//! | `claims` | leases and claims that live while their agent lives |
//! | `workers` | the watcher: stops, agents that are gone, transcripts, tmux |
//! | `trouble` | stores that cannot be written |
//! | `turns` | turns that both hooks and transcripts report |
//! | `spool` | events that waited, and their effects |
//! | `undecided` | hooks without a store, without time, without an event that can be read |
//! | `summaries` | turns that two watchers would summarise |
//! | `replaced` | lines of the shell beside what a guard asks to run instead, under bash |
//! | `server` | PostgreSQL, with psql as the other program |
//! | `place` | a repository with agents |

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod claims;
mod edits;
mod guards;
mod hooks;
mod input;
mod own_leases;
mod place;
mod programs;
mod replaced;
mod server;
mod spool;
mod summaries;
mod trouble;
mod turns;
mod undecided;
mod workers;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
