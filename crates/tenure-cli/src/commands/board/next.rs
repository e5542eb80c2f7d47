//! `tenure board next`: prints the next issue that is ready, and claims it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_api::board::NextIssue;
use tenure_api::text::Span;

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::cli::values::{parse_ttl, parse_wait};
use crate::output::{self, word};
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Next {
    /// Claim it: of all who ask, one gets it
    #[arg(long)]
    pub claim: bool,
    /// Only those with this label
    #[arg(long)]
    pub label: Option<String>,
    /// How long to wait for one to become ready (default: not at all)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub wait: Option<Duration>,
    /// How long the claim lasts, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, requires = "claim")]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub terms: BoardTerms,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board next
  id=$(tenure board next --claim --owner agent:7)
  tenure board next --claim --wait 10m --json

Ready is what is open, waits for no issue and no gate, and nobody has: lowest
priority number first, then oldest. Prints its id; the token of the claim is in
the JSON, and told on standard error.

Exit codes: 0 printed; 65 an issue cannot be read, and nothing else is left; 66
nothing is left to do; 75 something is, but it is claimed, blocked or locked.";

/// Prints the next issue.
pub fn next(global: &Global, options: Next) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open(global, options.terms)?;
    let next = on.call(NextIssue {
        board: on.dir.clone(),
        label: options.label,
        claim: options.claim,
        ttl: options.ttl.map(Span),
        wait: options.wait.map(Span),
    })?;
    on.surface.answer(&next, || {
        next.issues.iter().try_for_each(|issue| {
            if let Some(claim) = issue.claim.as_ref().filter(|_| options.claim) {
                let (token, until) = (claim.token, claim.expires_at);
                let id = &issue.id;
                word(&format!("claimed {id} with token {token}, until {until}"));
            }
            output::text(&format!("{}\n", issue.id))
        })
    })
}
