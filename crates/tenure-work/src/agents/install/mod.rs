//! Hooks in the settings of coding agents, as text: what is added, and how exactly that is taken
//! out again.
//!
//! | module | what it holds |
//! |---|---|
//! | `program` | the programs: files, events, shapes, sandboxes |
//! | [`hooks`] | hooks added to a text, and taken out of it |
//! | `json_text` | JSON as text, changed in one place |
//! | [`tenure_toml`] | what `tenure.toml` gets |
//!
//! A file is changed by a text that is put into its own, so that every other byte stays.
//!
//! # Limitations
//!
//! A settings file with comments is no JSON, and refused.

pub mod hooks;
mod json_text;
mod program;
pub mod tenure_toml;

pub use program::{COMMAND, ON_FAILURE, ProgramSettings};
