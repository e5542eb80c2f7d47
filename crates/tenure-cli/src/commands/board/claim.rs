//! `tenure board claim`: claims an issue, or renews its claim.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_api::board::{ClaimIssue, IssueId, Issues};
use tenure_api::text::Span;

use super::renew::renew;
use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::cli::values::parse_ttl;
use crate::output;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Claim {
    /// How long it lasts, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    /// The token of the claim that is renewed
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
  token=$(tenure board claim fix-login)
  tenure board claim fix-login --ttl 2h --owner agent:7
  tenure board claim fix-login --token 17      more time, as renew does

Exit codes: 0 claimed; 66 there is none; 75 another has it, or it is locked; 76
this owner has it, it is done, or it is blocked; 77 the token is older.";

/// Claims an issue, and prints the token.
pub fn claim(global: &Global, options: Claim) -> Result<ExitCode, Failure> {
    if options.token.is_some() {
        return renew(global, options);
    }
    let on = BoardSurface::open(global, options.terms)?;
    let claimed = on.call(ClaimIssue {
        board: on.dir.clone(),
        issue: options.id,
        ttl: options.ttl.map(Span),
    })?;
    answer(&on, &claimed)
}

/// Answers with the tokens of the claimed issues.
pub(super) fn answer(on: &BoardSurface, claimed: &Issues) -> Result<ExitCode, Failure> {
    on.surface.answer(claimed, || {
        let claims = claimed.issues.iter().map(|issue| issue.claim.as_ref());
        output::lines(claims.map(|claim| claim.map_or(0, |claim| claim.token).to_string()))
    })
}
