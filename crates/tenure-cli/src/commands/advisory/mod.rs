//! `tenure advisory`: PostgreSQL's own locks, which other programs take, too.

mod ls;
mod run;

use std::process::ExitCode;

use clap::Subcommand;
use tenure::Error;

use crate::cli::Global;
use crate::report::{Failure, Report};
use crate::surface::Surface;

#[derive(Debug, Subcommand)]
pub enum Advisory {
    /// Show who holds and awaits advisory locks, of Tenure or not
    #[command(after_long_help = ls::HELP, visible_alias = "list")]
    Ls,
    /// Take an advisory lock, run a command under it, release it
    #[command(after_long_help = run::HELP)]
    Run(run::Run),
}

/// Shown after the commands.
pub const HELP: &str = "\
Examples:
  tenure advisory ls
  tenure advisory run agent 42 -- ./hook session-start
  tenure advisory run --no-wait channel general -- ./post

Advisory locks are PostgreSQL's own: every program that calls pg_advisory_lock
in the same database takes part. They need --store postgres://… or
TENURE_STORE. They have no leases, no queue that can be seen and no audit; locks
among programs that use Tenure are better taken with `tenure run`.";

/// Carries out one of the commands of `advisory`.
pub fn advisory(global: &Global, command: Advisory, report: Report) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let done = match command {
        Advisory::Ls => ls::ls(&surface),
        Advisory::Run(options) => run::run(&surface, options, report),
    };
    done.map_err(|failure| about(failure, &surface))
}

/// Returns the failure; if the store has no advisory locks, its remedy shows how to name one that
/// has.
fn about(failure: Failure, surface: &Surface) -> Failure {
    match failure {
        Failure::Error(error @ Error::Configuration { .. }) if !surface.service.is_on_server() => {
            Failure::with_remedy(
                error,
                "name a database with --store or TENURE_STORE, such as \
                 postgres://user@host/database; elsewhere use: tenure run",
            )
        }
        failure => failure,
    }
}
