//! The embedded store: the cost of its bookkeeping, its line and its size.
//!
//! | file | what is compared |
//! |---|---|
//! | `acquire` | acquire + release against two bare transactions |
//! | `hand_over` | a hand-over between processes against flock(2); the end of a killed holder |
//! | `size` | a million leases against none |
//! | `bare`, `fill` | SQLite alone, many leases at once |
//! | `steps` | a test with a tenth of that size, which counts steps instead of timing |

mod acquire;
mod bare;
pub mod fill;
pub mod hand_over;
mod size;
#[cfg(test)]
mod steps;

pub use acquire::child;

use anyhow::Result;

use super::Measured;
use super::command::{self, Limits};

pub fn measure() -> Result<Vec<Measured>> {
    let mut all = acquire::measure()?;
    all.extend(hand_over::measure()?);
    all.extend(whole_command()?);
    all.extend(size::measure()?);
    Ok(all)
}

fn whole_command() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let store = crate::bench::program::sqlite(&directory.path().join("tenure.db"));
    let limits = Limits {
        ratio: 2.0,
        faults: 300.0,
        calls: 220.0,
        instructions: 1_300_000.0,
    };
    command::against_flock("tenure run x -- true on sqlite", &store, &limits)
}
