//! `tenure ledger init`: makes a ledger.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_api::ledger;
use tenure_api::text::Span;

use super::Place;
use crate::cli::Global;
use crate::cli::values::parse_wait;
use crate::output::said;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Init {
    /// How long claims last, from 1s to 1h (default: 5m)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub claim_ttl: Option<Duration>,
    #[command(flatten)]
    pub place: Place,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger init proof
  tenure ledger init proof --claim-ttl 10m

Makes DIR, DIR/ledger and DIR/meta.json. A ledger that is there stays as it is.

Exit codes: 0 it is there; 65 claims last from 1s to 1h; 69 it cannot be made;
76 meta.json says that claims last for another time.";

/// Makes a ledger. An existing ledger stays as it is.
pub fn init(global: &Global, options: Init) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(None)?;
    let request = ledger::Init {
        directory: options.place.directory,
        claim_ttl: options.claim_ttl.map(Span),
    };
    let made = surface.call(request, &caller)?;
    surface.answer(&made, || {
        said(&format!("there is a ledger in {}", made.ledger))
    })
}
