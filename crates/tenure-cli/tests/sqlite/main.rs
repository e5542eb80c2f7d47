//! The hard cases of the embedded store, through the command: real processes, killed, stopped
//! and interrupted; clocks set wrong; the store's files deleted, replaced and cut.

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod broken_offer;
mod clocks;
mod crowd;
mod database;
mod disk;
mod handover;
#[path = "../cli/holder.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod holder;
mod killed_at;
mod lease_time;
mod other_sqlite;
mod others;
mod process;
mod read_only;
mod refusals;
mod restored;
mod run_killed;
mod sessions_folder;
mod versions;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
