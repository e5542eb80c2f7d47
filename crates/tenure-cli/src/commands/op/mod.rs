//! `tenure op`: the operations that are known, and the locks that each needs. It takes none.

mod ls;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::Global;
use crate::report::Failure;

#[derive(Debug, Subcommand)]
pub enum Op {
    /// Show the operations that are known here
    #[command(after_long_help = ls::HELP, visible_alias = "list")]
    Ls,
    /// Show which locks an operation needs, and why
    #[command(after_long_help = show::HELP)]
    Show(show::Show),
}

/// Shown after the commands.
pub const HELP: &str = "\
Examples:
  tenure op ls
  tenure op show map.calibrate
  tenure op show map.calibrate --with project=atlas --with map=m3
  tenure run --op map.calibrate --with project=atlas --with map=m3 -- ./job.sh

An operation is a named kind of work, and the table says which locks it needs.
tenure.toml says which operations there are: policy = \"maps\" for those that are
compiled in, [operation.NAME] for your own (docs/operations.md).";

/// Carries out one of the commands of `op`.
pub fn op(global: &Global, command: Op) -> Result<ExitCode, Failure> {
    match command {
        Op::Ls => ls::ls(global),
        Op::Show(options) => show::show(global, options),
    }
}
