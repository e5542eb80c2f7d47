//! The patterns on a real PostgreSQL, scenario by scenario.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deferred_stop;
mod hook_routes;
mod injector;
mod reaper;
mod scene;
mod summarise;
