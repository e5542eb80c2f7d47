//! Coding agents: their identity, the events of their hooks, and guards against doing work twice.
//!
//! | module | what it holds |
//! |---|---|
//! | [`identity`] | the owner that an agent asks as |
//! | `ancestors` | the process of the agent around this one |
//! | [`event`] | the message of a hook |
//! | [`state`] | agents, commands and turns, as records |
//! | [`decide`] | the effect of an event on an agent, in a table |
//! | [`install`] | hooks in the settings of programs, as text |
//! | [`processor`] | an event processed under the agent's lock, step by step |
//! | [`spool`] | events that could not be processed at once |
//! | [`claim_notes`] | the issues and nodes that an agent has claimed |
//! | [`guard`] | checks before a tool is used |
//! | [`tolerant_json`] | JSON, read as far as it can be read |
//! | [`answer`] | the answer of a hook, in the form of its program |
//! | [`summary_calls`] | the calls of the command that summarises a turn, counted |
//! | [`transcript`] | the turns of a session, from the file of the agent's program |
//! | `reconcile` | turns from the transcript, each made once |
//! | [`workers`] | the background work on agents |

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

/// Makes a directory for the user alone, and the directories above it.
fn make_directory(path: &Path) -> Result<()> {
    let mut directory = DirBuilder::new();
    directory.recursive(true).mode(0o700);
    let made = directory.create(path);
    made.map_err(|source| Error::io("make", path, source))
}
