//! `tenure board delete`: deletes an issue.

use std::process::ExitCode;

use tenure_api::board::DeleteIssue;

use super::{BoardSurface, OneIssue};
use crate::cli::Global;
use crate::report::Failure;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board delete fix-login

Its id is never used again.

Exit codes: 0 deleted; 66 there is none; 75 locked; 76 others depend on it,
which are named; 77 another owner works on it.";

/// Deletes an issue.
pub fn delete(global: &Global, options: OneIssue) -> Result<ExitCode, Failure> {
    let said = format!("deleted {}", options.id);
    let on = BoardSurface::open(global, options.terms)?;
    let deleted = on.call(DeleteIssue {
        board: on.dir.clone(),
        issue: options.id,
    })?;
    on.answer(&deleted, &said)
}
