//! `tenure board release`: ends a claim.

use std::process::ExitCode;

use clap::Args;
use tenure_api::board::{IssueId, ReleaseIssue};

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Release {
    /// The token of the claim: refused if it is not the newest
    #[arg(long, value_name = "N")]
    pub token: Option<u64>,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board release fix-login
  tenure board release fix-login --token \"$token\"

Exit codes: 0 released; 66 there is none; 77 another has it, nobody has it, or
the token is older.";

/// Ends a claim.
pub fn release(global: &Global, options: Release) -> Result<ExitCode, Failure> {
    let said = format!("released {}", options.id);
    let on = BoardSurface::open(global, options.terms)?;
    let released = on.call(ReleaseIssue {
        board: on.dir.clone(),
        issue: options.id,
        token: options.token,
    })?;
    on.answer(&released, &said)
}
