//! The advisory lock service on a real PostgreSQL: a test for each scenario and each kind of loss.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dropped;
mod epoch;
mod keys;
mod lost;
mod monitor;
mod phantom;
mod pool;
mod pooler;
mod reentry;
mod scenarios;
mod scene;
mod swapped;
mod tls;
mod tokens;
mod trouble;
