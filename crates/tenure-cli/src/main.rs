//! The tenure command.
//!
//! | file | what it does |
//! |---|---|
//! | `cli`, `help` | the words of the command line |
//! | `context` | which store, which owner, which settings |
//! | `people` | leases in words |
//! | `exit`, `report` | the one table of exit codes; failures as people and programs see them |
//! | `run/` | takes locks, runs a command under them, releases them |
//! | `ls`, `doctor/`, `completions` | the other commands, one each |

mod cli;
mod completions;
mod context;
mod doctor;
mod exit;
mod help;
mod ls;
mod people;
mod report;
mod run;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::report::Report;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(refusal) => return refusal.show(),
    };
    let Cli { global, command } = cli;
    let report = Report::new(global.json);
    let outcome = match command {
        Command::Run(options) => run::run(&global, *options, report),
        Command::Ls(options) => ls::ls(&global, &options),
        Command::Doctor => doctor::doctor(&global),
        Command::Completions { shell } => completions::completions(shell),
        Command::Hold { resource } => doctor::hold(&global, &resource),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => report.failure(&failure),
    }
}
