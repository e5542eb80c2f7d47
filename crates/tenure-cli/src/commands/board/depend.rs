//! `tenure board depend`: adds a dependency, or takes it away.

use std::process::ExitCode;

use clap::Args;
use tenure_api::board::{DependIssue, IssueId};

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Depend {
    /// The issue that must be done before
    #[arg(long, value_name = "ID")]
    pub on: IssueId,
    /// Take the dependency away
    #[arg(long)]
    pub remove: bool,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue that waits
    pub id: IssueId,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board depend deploy --on fix-login
  tenure board depend deploy --on fix-login --remove

Exit codes: 0 on disk; 66 there is none; 75 locked; 76 that closes a circle,
which is named.";

/// Adds a dependency, or takes it away.
pub fn depend(global: &Global, options: Depend) -> Result<ExitCode, Failure> {
    let verb = match options.remove {
        true => "no longer depends",
        false => "depends",
    };
    let said = format!("{} {verb} on {}", options.id, options.on);
    let on = BoardSurface::open(global, options.terms)?;
    let changed = on.call(DependIssue {
        board: on.dir.clone(),
        issue: options.id,
        on: options.on,
        remove: options.remove,
    })?;
    on.answer(&changed, &said)
}
