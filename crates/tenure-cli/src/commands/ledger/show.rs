//! `tenure ledger show`: one event.

use std::process::ExitCode;

use clap::Args;
use tenure_api::ledger;

use super::Place;
use super::failure::about;
use crate::cli::Global;
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    pub place: Place,
    /// The number of the event
    #[arg(value_name = "N")]
    pub sequence: u64,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger show proof 7
  tenure ledger show proof 7 | jq .type

Exit codes: 0 shown; 65 it is torn; 66 there is no such event.";

/// Prints an event as it was written.
pub fn show(global: &Global, options: Show) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(None)?;
    let request = ledger::Show {
        directory: options.place.directory,
        sequence: options.sequence,
    };
    let shown = surface.call(request, &caller).map_err(about)?;
    surface.answer(&shown, || {
        let mut texts = shown.events.iter().map(|event| event.text.trim_end());
        texts.try_for_each(|text| output::exact(format!("{text}\n")))
    })
}
