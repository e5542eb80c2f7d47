//! The words of `agent`.

use clap::{Args, Subcommand};

use crate::agent::install::Program;
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// Show or add the hooks and settings by which coding agents use Tenure
    #[command(after_long_help = help::AGENT_INSTALL_LONG)]
    Install(AgentInstall),
    /// Take out what install added
    #[command(after_long_help = help::AGENT_UNINSTALL_LONG)]
    Uninstall(AgentUninstall),
}

#[derive(Debug, Args)]
pub struct AgentInstall {
    /// Make the change, and do not only show it
    #[arg(long)]
    pub write: bool,
    /// Which program (default: those that are used here)
    #[arg(value_enum)]
    pub program: Option<Program>,
}

#[derive(Debug, Args)]
pub struct AgentUninstall {
    /// Which program (default: all)
    #[arg(value_enum)]
    pub program: Option<Program>,
}
