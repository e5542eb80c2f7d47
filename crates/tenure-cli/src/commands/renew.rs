//! `tenure renew`: gives leases new time.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure::{Lease, LeaseId};
use tenure_api::leases;
use tenure_api::text::Span;

use super::several::{OwnerCheck, Several};
use crate::cli::Global;
use crate::cli::values::parse_ttl;
use crate::people::ago;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Renew {
    /// How long they last from now on (default: as long as before)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The leases, as `lock` printed them
    #[arg(required = true, value_name = "LEASE")]
    pub leases: Vec<LeaseId>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure renew \"$lease\"
  tenure renew --ttl 2h \"$lease\"
  tenure renew --owner agent:42 l1 l2

An expired lease may be renewed, too, as long as nobody took over. All leases
are tried, whatever becomes of one; the highest exit code wins.

Exit codes: 0 renewed; 66 there is no such lease; 77 it is over, it is another
owner's, or it is bound to a run, which needs no renewal.";

/// Renews each of the leases, if it can be renewed.
pub fn renew(global: &Global, options: Renew) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(options.by.owner)?;
    let mut several = Several::default();
    for lease in options.leases {
        let name = lease.to_string();
        let ttl = options.ttl.map(Span);
        several.note(&name, surface.call(leases::Renew { lease, ttl }, &caller));
    }
    several.report(surface.is_json(), in_words)
}

/// Returns a line such as `renewed l1: name:x is held until 2026-01-31T12:00:00.000Z (in 15m 00s)`.
fn in_words(lease: &Lease) -> String {
    let until = match lease.expires_at {
        Some(at) => format!("until {at} ({})", ago(at)),
        None => "until it is released".into(),
    };
    format!(
        "renewed {}: {} is held {until}",
        lease.lease, lease.resource
    )
}
