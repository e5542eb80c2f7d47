//! Coding agents through their hooks: real processes, on SQLite and on a real PostgreSQL.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `hooks` | events at once, in crowds, malformed, while the store is away |
//! | `input` | bodies that are no proper JSON, and long ones |
//! | `programs` | what each program really sends, and the form it is answered in |
//! | `guards` | heavy commands, and files that two agents edit |
//! | `edits` | the edit guard under kills and races, breaks and permissions |
//! | `own_leases` | agents that would end what they did not take |
//! | `claims` | leases and claims that live while their agent lives |
//! | `workers` | the watcher: stops, agents that are gone, transcripts, tmux |
//! | `trouble` | stores that cannot be written |
//! | `turns` | turns that hooks and transcripts both tell of |
//! | `spool` | events that waited, and what follows from them |
//! | `undecided` | hooks without a store, without time, without an event that can be read |
//! | `summaries` | turns that two would summarise |
//! | `replaced` | lines of the shell beside what a guard asks to run instead, under bash |
//! | `server` | PostgreSQL, with psql as the other program |
//! | `place` | a repository with agents |

// All of it is test code, helpers included.
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
