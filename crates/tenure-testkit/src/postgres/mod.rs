//! Real PostgreSQL for tests: servers that start on first use and never outlive the tests.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cluster`] | a private server: one shared by the tests of a process, or one of a test's own |
//! | [`database`] | a database for each test, dropped after it |
//! | [`psql`] | `psql`, the foreign client: one statement, or a session that stays open |
//! | [`bouncer`] | a real pgbouncer before a database |
//! | [`proxy`] | a TCP proxy that stops, holds back answers, resets and refuses |
//! | `supervisor` | a process that ends a server and removes its directory when the tests end |
//! | `programs` | the places of the programs, and what to install if they are missing |
//!
//! # Rules
//!
//! - Nothing here needs a runtime: all calls block.
//! - The servers run as the user `postgres` where the tests run as root, else as the user of
//!   the tests.
//! - A missing program fails the test and says what to install.

pub mod bouncer;
pub mod cluster;
pub mod database;
mod programs;
pub mod proxy;
pub mod psql;
mod supervisor;

pub use bouncer::{Bouncer, Mode};
pub use cluster::{Cluster, Settings, Stop};
pub use database::Database;
pub use proxy::{Answered, Proxy};
pub use psql::Psql;

use std::thread;
use std::time::Duration;

use crate::budget::Budget;

/// Waits until `so` holds; panics with the problem after the usual budget.
fn until(mut so: impl FnMut() -> bool, problem: impl Fn() -> String) {
    const LOOK: Duration = Duration::from_millis(5);
    let mut budget = Budget::default();
    loop {
        for _ in 0..Budget::SLICE.as_millis() / LOOK.as_millis() {
            if so() {
                return;
            }
            thread::sleep(LOOK);
        }
        budget.spend(&problem);
    }
}
