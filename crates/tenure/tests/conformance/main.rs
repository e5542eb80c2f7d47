//! The conformance suite, for the stores this crate opens by itself.

mod file;
mod memory;

tenure_testkit::agent!();
