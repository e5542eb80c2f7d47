//! `tenure upgrade`: makes a lease exclusive.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure::LeaseId;
use tenure_api::leases;

use super::several::OwnerCheck;
use crate::cli::Global;
use crate::cli::values::parse_wait;
use crate::output;
use crate::report::Failure;
use crate::surface::{Surface, asked_wait};

#[derive(Debug, Args)]
pub struct Upgrade {
    /// How long to wait for the readers to leave (default: 5s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if others read
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The lease, as `lock` printed it
    pub lease: LeaseId,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  lease=$(tenure lock map:atlas/m3=upgradeable)
  tenure upgrade \"$lease\"
  tenure upgrade --wait 1m \"$lease\"

Waits for the readers to leave; meanwhile no new ones come in. On timeout the
lease is as before. The exclusive lease has a new token.

Exit codes: 0 upgraded; 66 there is no such lease; 75 others read for too long;
76 it is not upgradeable, or something ordered later is held; 77 it is over, or
it is another owner's; 130 interrupted while waiting.";

/// Makes an upgradeable lease exclusive.
pub fn upgrade(global: &Global, options: Upgrade) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(options.by.owner)?;
    let request = leases::Upgrade {
        lease: options.lease,
        wait: asked_wait(options.no_wait, options.wait),
    };
    let upgraded = surface.call_waiting(request, &caller)?;
    surface.answer(&upgraded, || {
        output::lines(upgraded.leases.iter().map(|lease| {
            format!(
                "upgraded {}: {} is held for {}, with the new token {}",
                lease.lease, lease.resource, lease.mode, lease.token
            )
        }))
    })
}
