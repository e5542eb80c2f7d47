//! Coding agents through their hooks: real processes, on SQLite and on a real PostgreSQL.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `hooks` | events at once, in crowds, malformed, while the store is away |
//! | `programs` | what each program really sends, and the form it is answered in |
//! | `guards` | heavy commands, and files that two agents edit |
//! | `claims` | leases and claims that live while their agent lives |
//! | `workers` | the watcher: stops, agents that are gone, transcripts, tmux |
//! | `trouble` | stores that cannot be written |
//! | `summaries` | turns that two would summarise |
//! | `server` | PostgreSQL, with psql as the other program |
//! | `place` | a repository with agents |

// All of it is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod claims;
mod guards;
mod hooks;
mod place;
mod programs;
mod server;
mod summaries;
mod trouble;
mod workers;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
