//! The conformance suite, for the stores this crate opens by itself.

mod file;
mod memory;
mod postgres;
mod queried_database;
mod sqlite;

tenure_testkit::agent!();
