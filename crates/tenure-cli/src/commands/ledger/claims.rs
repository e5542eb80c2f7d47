//! `tenure ledger claims`: the owner of each node.

use std::process::ExitCode;

use tenure_api::ledger::{ListClaims, ListedClaim};

use super::Place;
use super::failure::about;
use crate::cli::Global;
use crate::output::word;
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger claims proof
  tenure ledger claims proof --json | jq '.claims[] | select(.state == \"held\")'

Takes no lock. Claims whose time is over are shown as expired until someone
reaps them, or claims the node.

Exit codes: 0 shown; 65 an event is missing or torn, or the ledger is of the form
000001.json, whose claims are not read; 66 there is no ledger.";

/// Shows all claims.
pub fn claims(global: &Global, options: Place) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(None)?;
    let directory = options.directory;
    let listed = surface.call(ListClaims { directory }, &caller);
    let listed = listed.map_err(about)?;
    surface.answer(&listed, || {
        print_table(&listed.claims, "nothing is claimed")
    })
}

/// Prints claims, or the word `none` if there are none.
pub fn print_table(claims: &[ListedClaim], none: &str) -> Result<(), Failure> {
    if claims.is_empty() {
        word(none);
    }
    let mut table = Table::new(vec![
        "NODE", "OWNER", "TOKEN", "ACQUIRED", "EXPIRES", "STATE",
    ]);
    for ListedClaim { claim, state } in claims {
        table.push([
            claim.node.clone(),
            claim.owner.clone(),
            claim.token.to_string(),
            claim.acquired_at.to_string(),
            claim.expires_at.to_string(),
            state.to_string(),
        ]);
    }
    table.print(&["NODE", "OWNER"])
}
