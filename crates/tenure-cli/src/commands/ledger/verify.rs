//! `tenure ledger verify`: the faults of a ledger, and their repairs.

use std::process::ExitCode;

use clap::Args;
use tenure_api::ledger;

use super::Place;
use super::failure::about;
use crate::cli::Global;
use crate::commands::findings;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Verify {
    /// Repair what can be repaired; what is taken out is kept
    #[arg(long)]
    pub repair: bool,
    /// Also mark missing events as such, and remove a lock of another program that is older than
    /// 30s
    #[arg(long, requires = "repair")]
    pub yes: bool,
    #[command(flatten)]
    pub place: Place,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger verify proof
  tenure ledger verify proof --repair          says what it did
  tenure ledger verify proof --repair --yes    also what a program is not sure of

Reads every event. Finds missing and torn events, wrong names, events that were
edited, and what dead processes left. Nothing is repaired unasked; what is taken
out is kept beside, under a hidden name that ends with .aside. With --yes an event
that is missing or torn is replaced by one of type event_missing, since its number
never comes again, and the claims from before it are ended and named; and a
ledger.lock of another program is removed if it and its text are older than 30s;
claims that last too long are ended.

With --json prints {\"events\":N,\"findings\":[{\"file\",\"problem\",\"repair\"}]}.

Exit codes: 0 all is in order, or repaired; 65 there are findings; 75 the ledger
is locked.";

/// Shows the faults of a ledger, and repairs them only if asked to.
pub fn verify(global: &Global, options: Verify) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(None)?;
    let request = ledger::Verify {
        directory: options.place.directory,
        repair: options.repair,
        confirmed: options.yes,
    };
    let verified = surface.call(request, &caller).map_err(about)?;
    let seen = format!("{} events", verified.events);
    findings::answer(surface.is_json(), verified, |it| &mut it.findings, &seen)
}
