//! The command, as a whole: real processes, real signals, real files.

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod agents;
mod audit;
mod automated;
mod breaking;
mod check;
mod circles;
mod completions;
mod control_bytes;
mod doc;
mod doctor;
mod environment;
mod errors;
mod exclusion;
mod file_paths;
mod habits;
mod holder;
mod job_control;
mod killed;
mod lock;
mod log;
mod ls;
mod nesting;
mod op;
mod pools;
#[path = "../sqlite/process.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod process;
mod recover;
mod release;
mod renew;
mod scene;
mod secrets;
mod signals;
mod slots;
mod store_choice;
mod terminal;
mod unsupported;
mod upgrade;
mod waiting;
#[allow(dead_code, reason = "shared with the tests on a server")]
mod world;
