//! The command, as a whole: real processes, real signals, real files.

// All of it is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod completions;
mod doctor;
mod environment;
mod errors;
mod exclusion;
mod holder;
mod job_control;
mod killed;
mod ls;
mod nesting;
mod signals;
mod store_choice;
mod waiting;
mod world;
