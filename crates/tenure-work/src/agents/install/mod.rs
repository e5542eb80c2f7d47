//! Hooks in the settings of coding agents: text that is added, and taken out again exactly.
//!
//! | module | what it holds |
//! |---|---|
//! | `program` | the programs: files, events, shapes, sandboxes |
//! | [`hooks`] | hooks added to a text, and taken out of it |
//! | `json_text` | JSON as text, changed in one place |
//! | [`tenure_toml`] | the text added to `tenure.toml` |
//!
//! A change puts a text into the text of a file, so that every other byte stays.
//!
//! # Limitations
//!
//! A settings file with comments is no JSON, and is refused.

pub mod hooks;
mod json_text;
mod program;
pub mod tenure_toml;

pub use program::{COMMAND, ON_FAILURE, ProgramSettings};
