//! The keeper as programs use it. The modules mirror `src/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod edit_file;
mod faulty_store;
mod features;
mod guard;
mod heartbeat;
mod leases;
mod memory;
mod renewal;
mod scene;
mod server;
mod session;
mod trust;
mod url;
