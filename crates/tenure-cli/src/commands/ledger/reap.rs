//! `tenure ledger reap`: ends claims whose time is over.

use std::process::ExitCode;

use clap::Args;
use tenure_api::ledger;

use super::claims::print_table;
use super::failure::about;
use super::{Place, Terms};
use crate::cli::Global;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Reap {
    #[command(flatten)]
    pub terms: Terms,
    #[command(flatten)]
    pub place: Place,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger reap proof
  tenure ledger reap proof --json

Appends lock_reaped for each claim whose time is over, and shows them. Also
removes files of such claims that other programs left in DIR/locks.

Exit codes: 0 done; 65 an event is missing or torn; 75 the ledger is locked.";

/// Ends the claims whose time is over, and shows them.
pub fn reap(global: &Global, options: Reap) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let wait = options.terms.wait();
    let caller = surface.caller(options.terms.owner)?;
    let directory = options.place.directory;
    let request = ledger::Reap { directory, wait };
    let reaped = surface.call_on_files(request, &caller).map_err(about)?;
    surface.answer(&reaped, || print_table(&reaped.reaped, "no claim is over"))
}
