//! `tenure agent`: coding agents, by their hooks.

mod hook;
mod in_time;
mod input;
mod install;
mod ls;
mod uninstall;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::{PossibleValue, TypedValueParser};
use tenure_api::agents::Program;

use crate::cli::Global;
use crate::cli::values::word_of;
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

/// Carries out one of the commands of `agent`.
pub fn agent(global: &Global, command: Agent) -> Result<ExitCode, Failure> {
    match command {
        Agent::Install(options) => install::install(global, &options),
        Agent::Uninstall(options) => uninstall::uninstall(global, &options),
        Agent::Hook(options) => Ok(hook::hook(global, options)),
        Agent::Ls(options) => ls::ls(global, &options),
        Agent::Watch(options) => watch::watch(global, &options),
    }
}

/// Reads a coding agent.
fn program() -> impl TypedValueParser<Value = Program> {
    let titles = [
        ("claude", "Claude Code"),
        ("codex", "Codex CLI"),
        ("copilot", "Copilot CLI"),
        ("cursor", "Cursor"),
        ("gemini", "Gemini CLI"),
    ];
    word_of(titles.map(|(name, title)| PossibleValue::new(name).help(title)))
}
