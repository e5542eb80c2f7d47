//! The store from the outside, in the hands of a keeper: other processes; a database that is busy,
//! deleted or replaced; clocks that jump; rows and files that dead sessions leave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod busy;
mod clock;
mod dead;
mod long_line;
mod replaced;
mod scene;
mod transactions;
mod upgrade;

tenure_testkit::agent!();
