//! `tenure agent`: coding agents, by their hooks.
//!
//! | file | what it does |
//! |---|---|
//! | `install/` | the hooks in the settings of each program |
//! | `hook` | one event of a hook, and what is answered |
//! | `edits` | what an agent is told about the files that it edits |
//! | `in_time` | the answer in time, whatever happens to the hook |
//! | `input` | what a program writes to its hook |
//! | `undecided` | a tool that a guard cannot decide on |
//! | `claimed` | the claims of an agent, remembered for its hooks |
//! | `locks` | the lock of an agent: PostgreSQL's own, or the keeper's |
//! | `listed` | agents with what each holds, waits for and has claimed |
//! | `ls` | `agent ls` |
//! | `watch` | `agent watch` |
//! | `summary` | turns summarised by a command from the settings |

mod claimed;
mod edits;
mod hook;
mod in_time;
mod input;
pub mod install;
mod listed;
mod locks;
mod ls;
pub mod sandbox;
mod summary;
mod undecided;
mod watch;

use std::process::ExitCode;

use crate::cli::{Agent, Global};
use crate::report::Failure;
pub use claimed::{forget, remember};
pub use listed::{FREE, Listed, agents, table};

/// Carries out one of its commands.
pub fn agent(global: &Global, command: &Agent) -> Result<ExitCode, Failure> {
    match command {
        Agent::Install(options) => install::install(global, options),
        Agent::Uninstall(options) => install::uninstall(global, options),
        Agent::Hook(options) => Ok(hook::hook(global, options)),
        Agent::Ls(options) => ls::ls(global, options),
        Agent::Watch(options) => watch::watch(global, options),
    }
}
