//! `tenure ledger claim`: claims a node, or renews the claim that a token names.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure::Error;
use tenure_api::ledger;
use tenure_api::text::Span;

use super::failure::{about, answered};
use super::{Place, Terms};
use crate::cli::Global;
use crate::cli::values::parse_wait;
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Claim {
    /// How long it lasts, from 1s to 1h (default: as the ledger's meta.json says)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub terms: Terms,
    #[command(flatten)]
    pub place: Place,
    /// The node; with its token, its claim is renewed
    #[arg(value_name = "NODE[#TOKEN]")]
    pub node: String,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger claim proof 1.2.3
  tenure ledger claim proof 1.2.3 --owner agent:7 --ttl 10m
  tenure ledger claim proof 1.2.3#7            more time; the token stays

Prints NODE#TOKEN. The token is the number of the event that acquired it; it is
for renewing, and for append --token, which refuses a claim that was lost.

Exit codes: 0 claimed; 65 bad node or time, a missing event, or one about the node
that is not whole or not of this day; 69 as for append, with the token as \"sequence\"; 75 node already locked, or the ledger is; 76 this owner has it already; 77 the
claim to be renewed is over.";

/// Claims a node or renews a claim, and prints it as `NODE#TOKEN`.
pub fn claim(global: &Global, options: Claim) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let wait = options.terms.wait();
    let caller = surface.caller(options.terms.owner)?;
    let directory = options.place.directory;
    let request = ledger::ClaimNode {
        directory: directory.clone(),
        node: options.node,
        ttl: options.ttl.map(Span),
        wait,
    };
    let claimed = surface.call_on_files(request, &caller).map_err(about)?;
    let [one] = &claimed.claims[..] else {
        return Err(Error::Internal("a claim is not in its answer".into()).into());
    };
    let (node, token) = (&one.claim.node, one.claim.token);
    let answer = surface.answer(&claimed, || output::text(&format!("{node}#{token}\n")));
    answered(answer, &directory, token)
}
