//! `tenure ledger release`: ends a claim.

use std::process::ExitCode;

use clap::Args;
use tenure_api::ledger;

use super::failure::about;
use super::{Place, Terms};
use crate::cli::Global;
use crate::output::word;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    pub terms: Terms,
    #[command(flatten)]
    pub place: Place,
    /// The node
    #[arg(value_name = "NODE")]
    pub node: String,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger release proof 1.2.3
  tenure ledger release proof 1.2.3 --owner agent:7

Exit codes: 0 released; 75 the ledger is locked; 77 it is not claimed, or by
another owner.";

/// Ends a claim.
pub fn release(global: &Global, options: Release) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let wait = options.terms.wait();
    let caller = surface.caller(options.terms.owner)?;
    let request = ledger::ReleaseNode {
        directory: options.place.directory,
        node: options.node,
        wait,
    };
    let released = surface.call_on_files(request, &caller).map_err(about)?;
    surface.answer(&released, || {
        for one in &released.claims {
            word(&format!("released {}#{}", one.claim.node, one.claim.token));
        }
        Ok(())
    })
}
