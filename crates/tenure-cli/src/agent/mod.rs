//! `tenure agent`: what coding agents are given, and told.

pub mod install;

use std::process::ExitCode;

use crate::cli::{Agent, Global};
use crate::report::Failure;

/// Carries out one of them.
pub fn agent(global: &Global, command: &Agent) -> Result<ExitCode, Failure> {
    match command {
        Agent::Install(options) => install::install(global, options),
        Agent::Uninstall(options) => install::uninstall(global, options),
    }
}
