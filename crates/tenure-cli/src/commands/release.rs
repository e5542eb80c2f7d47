//! `tenure release`: ends leases, named by their id or by their resource.

use std::process::ExitCode;

use clap::Args;
use tenure_api::leases;

use super::several::{OwnerCheck, Several};
use crate::cli::Global;
use crate::cli::values::parse_resource;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The leases, as `lock` printed them, or what they are of
    #[arg(required = true, value_name = "LEASE|RESOURCE")]
    pub leases: Vec<String>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure release \"$lease\"
  tenure release map:atlas/m3                     the one lease you have of it
  tenure release --owner agent:42 l1 l2

What is no id of a lease names a resource, of which the owner (--owner, else
TENURE_OWNER, else user@host) has one lease. All are tried, whatever becomes of
one; the highest exit code wins.

Exit codes: 0 released; 66 there is no such lease; 76 the owner has several of
that resource; 77 it is over, it is another owner's, or it is bound to a run,
which ends it (or a person does, with: tenure break LEASE --reason TEXT).";

/// Releases each of the leases, if it can be released.
pub fn release(global: &Global, options: Release) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(options.by.owner)?;
    let mut several = Several::default();
    for name in &options.leases {
        // The path of a file is resolved from this directory. The operation reads every other name.
        let lease = match parse_resource(name.as_bytes()) {
            Ok(resource) if resource.kind() == "file" => resource.to_string(),
            _ => name.clone(),
        };
        several.note(name, surface.call(leases::Release { lease }, &caller));
    }
    several.report(surface.is_json(), |lease| {
        format!("released {}: {}", lease.lease, lease.resource)
    })
}
