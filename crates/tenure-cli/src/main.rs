//! The tenure command.
//!
//! | file | what it does |
//! |---|---|
//! | `cli/`, `help` | the command line as a whole: commands, single values, the overview |
//! | `commands/` | a file for each command: its arguments, its help, its call of an operation |
//! | `surface` | reads the environment, once; calls operations, shows their answers |
//! | `start`, `power`, `runtime` | the beginning of the process; powers; the runtimes of calls |
//! | `people/`, `table`, `output` | leases in words; tables; the one place that prints |
//! | `exit`, `report/` | the one table of exit codes; failures as people and programs see them |
//! | `listing` | holders and waiters as a table |
//! | `waiting/` | draws waits: who is in the way, for how long |
//! | `log` | the lock log |

#![cfg_attr(all(not(test), target_env = "gnu"), no_main)]

mod cli;
mod commands;
mod exit;
mod help;
mod listing;
mod log;
mod output;
mod people;
#[cfg(target_env = "gnu")]
mod power;
mod report;
mod runtime;
#[cfg(all(not(test), target_env = "gnu"))]
mod start;
mod surface;
mod table;
mod waiting;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::{Cli, Command, Global};
use crate::report::{Failure, Report};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let is_hook = is_hook(&arguments);
    let cli = match cli::parse(arguments) {
        Ok(cli) => cli,
        Err(refusal) => {
            let code = refusal.show();
            // With another code the program of an agent would refuse the tool.
            return if is_hook { ExitCode::SUCCESS } else { code };
        }
    };
    let Cli { global, command } = cli;
    let report = Report::new(global.json);
    let started = match log::start() {
        // A hook goes on without its log, so that the program of its agent does not refuse the
        // tool.
        Err(failure) if is_hook => {
            report.failure(&failure);
            Ok(())
        }
        started => started,
    };
    let outcome = started.and_then(|()| carry_out(&global, command, report));
    match outcome {
        Ok(code) => code,
        Err(failure) => report.failure(&failure),
    }
}

/// Returns true for `tenure agent hook`, whatever its other arguments are.
fn is_hook(arguments: &[OsString]) -> bool {
    let mut pairs = arguments.windows(2);
    let Some(at) = pairs.position(|words| words == ["agent", "hook"]) else {
        return false;
    };
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let mut before = arguments[..at].windows(2);
    before.all(|words| is_option(&words[1]) || words[0] == "--store")
}

fn carry_out(global: &Global, command: Command, report: Report) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(options) => commands::run::run(global, *options.0, report),
        Command::Lock(options) => commands::lock::lock(global, *options.0),
        Command::Renew(options) => commands::renew::renew(global, *options.0),
        Command::Release(options) => commands::release::release(global, *options.0),
        Command::Upgrade(options) => commands::upgrade::upgrade(global, *options.0),
        Command::Downgrade(options) => commands::downgrade::downgrade(global, *options.0),
        Command::Check(options) => commands::check::check(global, *options.0),
        Command::Ls(options) => commands::ls::ls(global, *options.0),
        Command::Recover(options) => commands::recover::recover(global, *options.0),
        Command::Break(options) => commands::break_lease::break_lease(global, *options.0),
        Command::Audit(options) => commands::audit::audit(global, *options.0),
        Command::Advisory { command } => commands::advisory::advisory(global, *command.0, report),
        Command::Doc { command } => commands::doc::doc(global, *command.0),
        Command::Publish(options) => commands::publish::publish(global, *options.0),
        Command::Ledger { command } => commands::ledger::ledger(global, *command.0),
        Command::Board { command } => commands::board::board(global, *command.0, report),
        Command::Op { command } => commands::op::op(global, *command.0),
        Command::Agent { command } => commands::agent::agent(global, *command.0),
        Command::Status(options) => commands::status::status(global, &options.0),
        Command::Doctor(options) => commands::doctor::doctor(global, &options.0),
        Command::Schema(options) => commands::schema::schema(global, *options.0),
        Command::Completions { shell } => commands::completions::completions(shell),
    }
}
