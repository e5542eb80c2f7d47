//! `tenure agent`: coding agents, by their hooks.

mod hook;
mod in_time;
mod input;
mod install;
mod ls;
mod uninstall;
mod watch;

use std::process::ExitCode;

use clap::builder::PossibleValue;
use clap::{Subcommand, ValueEnum};
use tenure_api::agents;

use crate::cli::Global;
use crate::report::Failure;
pub use ls::{FREE, table};

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// Show or add the hooks and settings by which coding agents use Tenure
    #[command(after_long_help = install::HELP)]
    Install(install::Install),
    /// Take out what install added
    #[command(after_long_help = uninstall::HELP)]
    Uninstall(uninstall::Uninstall),
    /// Process what the hook of a coding agent says on standard input
    #[command(after_long_help = hook::HELP)]
    Hook(hook::Hook),
    /// Show the agents, and what each does, holds and waits for
    #[command(after_long_help = ls::HELP, visible_alias = "list")]
    Ls(ls::Ls),
    /// Tend the agents in the background
    #[command(after_long_help = watch::HELP)]
    Watch(watch::Watch),
}

/// Shown after the commands.
pub const HELP: &str = "\
Examples:
  tenure agent install             show what the programs found here need
  tenure agent install --write     add it to their settings
  tenure agent ls                  who is at work, on what
  tenure agent watch               tend them until interrupted

Coding agents report by their hooks; no server runs. From then on their claims
and leases live while they live, heavy commands go through slots, and a file is
edited by one agent at a time. See docs/agents.md.

A command that a coding agent runs asks as agent:PROGRAM-SESSION, unless --owner
or TENURE_OWNER says otherwise: two agents of one user are two owners.";

/// Carries out one of its commands.
pub fn agent(global: &Global, command: Agent) -> Result<ExitCode, Failure> {
    match command {
        Agent::Install(options) => install::install(global, &options),
        Agent::Uninstall(options) => uninstall::uninstall(global, &options),
        Agent::Hook(options) => Ok(hook::hook(global, options)),
        Agent::Ls(options) => ls::ls(global, &options),
        Agent::Watch(options) => watch::watch(global, &options),
    }
}

/// A coding agent, as the command line names it.
#[derive(Debug, Clone, Copy)]
pub struct Program(agents::Program);

impl From<Program> for agents::Program {
    fn from(program: Program) -> Self {
        program.0
    }
}

impl ValueEnum for Program {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Program(agents::Program::Claude),
                Program(agents::Program::Codex),
                Program(agents::Program::Copilot),
                Program(agents::Program::Cursor),
                Program(agents::Program::Gemini),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let title = match self.0 {
            agents::Program::Claude => "Claude Code",
            agents::Program::Codex => "Codex CLI",
            agents::Program::Copilot => "Copilot CLI",
            agents::Program::Cursor => "Cursor",
            agents::Program::Gemini => "Gemini CLI",
        };
        Some(PossibleValue::new(self.0.as_str()).help(title))
    }
}
