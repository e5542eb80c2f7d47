//! `tenure downgrade`: makes an upgraded lease shared again.

use std::process::ExitCode;

use clap::Args;
use tenure::LeaseId;
use tenure_api::leases;

use super::several::OwnerCheck;
use crate::cli::Global;
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Downgrade {
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The lease, as `lock` printed it
    pub lease: LeaseId,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure downgrade \"$lease\"
  tenure downgrade --owner agent:42 \"$lease\"

Exit codes: 0 downgraded; 66 there is no such lease; 76 it was never upgraded;
77 it is over, or it is another owner's.";

/// Makes an upgraded lease upgradeable again.
pub fn downgrade(global: &Global, options: Downgrade) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(options.by.owner)?;
    let request = leases::Downgrade {
        lease: options.lease,
    };
    let downgraded = surface.call(request, &caller)?;
    surface.answer(&downgraded, || {
        output::lines(downgraded.leases.iter().map(|lease| {
            format!(
                "downgraded {}: {} is held for {} again",
                lease.lease, lease.resource, lease.mode
            )
        }))
    })
}
