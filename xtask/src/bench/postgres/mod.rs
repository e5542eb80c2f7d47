//! PostgreSQL: the cost of locks and leases beside the bare statements.
//!
//! | file | what is compared |
//! |---|---|
//! | `advisory` | advisory lock + unlock against the two bare calls, one client and sixteen |
//! | `lease` | lease acquire + release against a bare insert + delete, one client and sixteen |
//! | `hand_over` | a hand-over of a lease against a bare durable one and `pg_advisory_lock` |
//! | `size` | a million leases against none |
//! | `server`, `bare`, `crowd` | a server that syncs; the other sides; sixteen clients |
//!
//! A rate that must be at least a part of the other side's is told as theirs divided by ours.

mod advisory;
pub mod bare;
mod crowd;
pub mod hand_over;
mod lease;
pub mod server;
pub mod size;

use anyhow::Result;

use super::Measured;
use server::Server;

pub fn measure() -> Result<Vec<Measured>> {
    let server = Server::start();
    let mut all = advisory::measure(&server)?;
    all.extend(lease::measure(&server)?);
    all.extend(hand_over::measure(&server)?);
    all.push(size::measure(&server)?);
    Ok(all)
}
