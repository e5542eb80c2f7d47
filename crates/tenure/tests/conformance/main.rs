//! The conformance suite, for the stores this crate opens by itself.

mod file;
mod memory;
mod sqlite;

tenure_testkit::agent!();
