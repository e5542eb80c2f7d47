//! The conformance suite, for the stores this crate opens by itself.

mod advisory;
mod file;
mod lookout;
mod memory;
mod postgres;
mod sqlite;

tenure_testkit::agent!();
