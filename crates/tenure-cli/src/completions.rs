//! `tenure completions`: what a shell needs to complete our words.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::report::Failure;

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tenure", &mut script);
    io::stdout().write_all(&script).map_err(Failure::output)?;
    Ok(ExitCode::SUCCESS)
}
