//! Documents as programs use them, with real threads, and with processes: this binary in a role.

#![allow(
    clippy::unwrap_used,
    reason = "a test says by panicking what went wrong"
)]

mod documents;
#[allow(dead_code, reason = "shared with the tests of lock files")]
#[path = "../../../tenure-lockfile/tests/lockfile/process.rs"]
mod process;
mod roles;
#[allow(dead_code, reason = "shared with the tests of lock files")]
#[path = "../../../tenure-lockfile/tests/lockfile/stage.rs"]
mod stage;
