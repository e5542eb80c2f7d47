//! Coding agents: who they are, what their hooks say, and what is kept from happening twice.
//!
//! | module | what it holds |
//! |---|---|
//! | [`identity`] | the owner that an agent asks as |
//! | `ancestors` | the process of the agent around this one |
//! | [`event`] | what a hook says |
//! | [`state`] | agents, commands and turns, as records |
//! | [`decide`] | what an event makes of an agent, in a table |
//! | [`install`] | hooks in the settings of programs, as text |
//! | [`processor`] | an event processed under the agent's lock, step by step |
//! | [`spool`] | events that could not be processed at once |
//! | [`claim_notes`] | which issues and nodes an agent has claimed |
//! | [`guard`] | what is asked before a tool is used |
//! | [`tolerant_json`] | JSON, read as far as it can be read |
//! | [`answer`] | what a hook answers, in the form of its program |
//! | [`summary_calls`] | the calls of the command that summarises a turn, counted |
//! | [`transcript`] | what was said, from the file of the agent's program |
//! | `reconcile` | turns from the transcript, each made once |
//! | [`workers`] | what is done about agents in the background |

mod ancestors;
pub mod answer;
pub mod claim_notes;
pub mod decide;
pub mod event;
pub mod guard;
pub mod identity;
pub mod install;
pub mod processor;
mod reconcile;
pub mod spool;
pub mod state;
pub mod summary_calls;
pub mod tolerant_json;
pub mod transcript;
pub mod workers;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tenure::{Error, Result};

/// Makes a directory for the user alone, and those above it.
fn make_directory(path: &Path) -> Result<()> {
    let mut directory = DirBuilder::new();
    directory.recursive(true).mode(0o700);
    let made = directory.create(path);
    made.map_err(|source| Error::io("make", path, source))
}
