//! `tenure board renew`: gives a claim more time.

use std::process::ExitCode;

use tenure_api::board::RenewIssue;
use tenure_api::text::Span;

use super::BoardSurface;
use super::claim::{Claim, answer};
use crate::cli::Global;
use crate::report::Failure;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board renew fix-login
  tenure board renew fix-login --token \"$token\" --ttl 1h

Prints the token, which stays. A claim that is over and that nobody took is
renewed, too.

Exit codes: 0 renewed; 66 there is none; 77 another has it, nobody has it, or
the token is older.";

/// Gives a claim more time, and prints the token.
pub fn renew(global: &Global, options: Claim) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open(global, options.terms)?;
    let renewed = on.call(RenewIssue {
        board: on.dir.clone(),
        issue: options.id,
        token: options.token,
        ttl: options.ttl.map(Span),
    })?;
    answer(&on, &renewed)
}
