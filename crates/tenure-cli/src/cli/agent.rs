//! The words of `agent` and `status`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::parse_wait;
use crate::agent::install::InstallProgram;
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// Show or add the hooks and settings by which coding agents use Tenure
    #[command(after_long_help = help::AGENT_INSTALL_LONG)]
    Install(AgentInstall),
    /// Take out what install added
    #[command(after_long_help = help::AGENT_UNINSTALL_LONG)]
    Uninstall(AgentUninstall),
    /// Process what the hook of a coding agent says on standard input
    #[command(after_long_help = help::AGENT_HOOK_LONG)]
    Hook(AgentHook),
    /// Show the agents, and what each does, holds and waits for
    #[command(after_long_help = help::AGENT_LS_LONG, visible_alias = "list")]
    Ls(AgentLs),
    /// Tend the agents in the background
    #[command(after_long_help = help::AGENT_WATCH_LONG)]
    Watch(AgentWatch),
}

#[derive(Debug, Clone, Args)]
pub struct AgentHook {
    /// The program that calls (default: told by what it sends)
    #[arg(long, value_enum)]
    pub program: Option<InstallProgram>,
    /// The event, if the body does not name it
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
}

#[derive(Debug, Args)]
pub struct AgentInstall {
    /// Make the change, and do not only show it
    #[arg(long)]
    pub write: bool,
    /// Which program (default: those that are used here)
    #[arg(value_enum)]
    pub program: Option<InstallProgram>,
}

#[derive(Debug, Args)]
pub struct AgentUninstall {
    /// Which program (default: all)
    #[arg(value_enum)]
    pub program: Option<InstallProgram>,
}

#[derive(Debug, Args)]
pub struct AgentLs {
    /// Show those that are done or gone, too
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct AgentWatch {
    /// One go through all agents, then end
    #[arg(long)]
    pub once: bool,
    /// How long to wait between two goes
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, default_value = "5s")]
    pub every: Duration,
}

#[derive(Debug, Args)]
pub struct Status {
    /// Draw it anew every second until interrupted
    #[arg(long)]
    pub watch: bool,
}
