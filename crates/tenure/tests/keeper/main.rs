//! The keeper as programs use it. The modules mirror `src/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod faulty_store;
mod features;
mod guard;
mod heartbeat;
mod leases;
mod memory;
mod scene;
mod server;
mod session;
mod trust;
mod url;
mod watch;
