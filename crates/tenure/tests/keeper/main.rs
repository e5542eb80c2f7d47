//! The keeper as programs use it. The modules mirror `src/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod guard;
mod leases;
mod memory;
mod scene;
mod server;
mod session;
mod shaky;
mod trust;
mod url;
mod watch;
