//! Features that are written once above the keeper and its records.
//!
//! | module | what it holds |
//! |---|---|
//! | [`agents`] | coding agents, as their hooks show them |
//! | [`jobs`] | commands that are queued, with caps, each run by one worker at a time |
//! | [`policy`] | named kinds of work, and the locks each needs |
//! | [`mod@all_records`] | all records of a query |
//! | [`mod@publish`] | directories put in place whole, with manifests |
//!
//! # Limitations
//!
//! Locks are a rule between honest programs: a policy says which locks a kind of work needs, and
//! nothing stops a program that takes none of them.

pub mod agents;
pub mod all_records;
pub mod jobs;
pub mod policy;
pub mod publish;
