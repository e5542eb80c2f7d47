//! The command on PostgreSQL: a real server, real processes, and faults between them.

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod advisory;
mod at_least;
mod away;
mod broken;
#[path = "../sqlite/broken_offer.rs"]
mod broken_offer;
mod commands;
mod cut_off;
mod documents;
mod full;
mod guides;
mod handover;
#[path = "../cli/holder.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod holder;
mod passwords;
mod paused;
mod plans;
mod pooler;
#[path = "../cli/pools.rs"]
mod pools;
#[path = "../sqlite/process.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod process;
mod refusals;
mod run_killed;
mod scene;
mod survived;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
