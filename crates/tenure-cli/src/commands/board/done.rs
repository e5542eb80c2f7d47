//! `tenure board done`: marks an issue as done.

use std::process::ExitCode;

use tenure_api::board::FinishIssue;

use super::BoardSurface;
use super::release::Release;
use crate::cli::Global;
use crate::report::Failure;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board done fix-login
  tenure board done fix-login --token \"$token\"

Exit codes: 0 done; 66 there is none; 76 it is done already, or blocked; 77
another has it, or the token is older.";

/// Marks an issue as done.
pub fn done(global: &Global, options: Release) -> Result<ExitCode, Failure> {
    let said = format!("{} is done", options.id);
    let on = BoardSurface::open(global, options.terms)?;
    let done = on.call(FinishIssue {
        board: on.dir.clone(),
        issue: options.id,
        token: options.token,
    })?;
    on.answer(&done, &said)
}
