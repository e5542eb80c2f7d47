//! The lock that Node programs see, tested with real Node programs.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `exclusion` | one holder at a time among Node programs and ours, and hand-over both ways |
//! | `stale` | dead holders, times in the future, locks that cannot be removed |
//! | `lost` | holders that were paused, and locks that other programs touch |
//! | `race` | several programs that take over one stale lock |
//! | `killed_at` | SIGKILL at every system call |
//! | `release` | leftovers, and forked children |
//!
//! The Node programs stand beside this file and use the real `proper-lockfile`, which `./test`
//! installs; a test fails where it is missing. A process of ours is this binary in a role.

#![allow(
    clippy::unwrap_used,
    reason = "a test says by panicking what went wrong"
)]

mod exclusion;
mod killed_at;
mod lost;
mod node;
#[allow(dead_code, reason = "shared with the tests of lock files")]
#[path = "../../../tenure-lockfile/tests/lockfile/process.rs"]
mod process;
mod race;
mod release;
mod roles;
mod scene;
#[allow(dead_code, reason = "shared with the tests of lock files")]
#[path = "../../../tenure-lockfile/tests/lockfile/stage.rs"]
mod stage;
mod stale;
