//! `tenure ls`: the leases that are held, with owner and purpose, and the waiters.

use std::process::ExitCode;

use clap::Args;
use tenure::{Listing, Owner};
use tenure_api::leases;

use crate::cli::Global;
use crate::cli::values::{parse_cursor, parse_limit, parse_prefix};
use crate::listing::View;
use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Ls {
    /// The beginning of a resource, or a kind; `slot` shows the slots
    #[arg(value_parser = parse_prefix)]
    pub prefix: Option<String>,
    /// Only what this owner holds
    #[arg(long)]
    pub owner: Option<Owner>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says
    #[arg(long, value_name = "CURSOR", value_parser = parse_cursor)]
    pub after: Option<String>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ls                   all locks
  tenure ls map:atlas/        what begins so
  tenure ls map               all of kind `map`, and names that begin with `map`
  tenure ls --owner agent:42
  tenure ls slot              the slots of `run --slot`, whatever --store says
  tenure ls slot:test         one of them: who has a place, and who waits
  tenure ls --json | jq '.held[].resource'

PREFIX is the beginning of a resource as `ls` shows it. Without a `:` it means
names that begin so, and all resources of that kind. Slots are not among the
locks: they are counted in one place for this user and machine, and shown only
when asked for. Documents (`tenure doc`) are locked beside their files and are
not shown here; a command that waits for one is told who has it.

STATE is shown where a lease is not simply held: `expired` (it may still be
renewed, or taken over), `revoking` (a person breaks it), `offered` (its waiter
has not yet taken it up), `unknown` (nothing proves its session alive or dead;
only a person ends it: tenure break LEASE --reason TEXT).";

/// Shows one page of holders and waiters.
pub fn ls(global: &Global, options: Ls) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(None)?;
    let request = leases::Ls {
        prefix: options.prefix.clone(),
        owner: options.owner.clone(),
        limit: options.limit,
        after: options.after.clone(),
    };
    let missing = surface.service.missing_store_of(&request)?;
    let listing = surface.call(request, &caller)?;
    surface.answer(&listing, || match missing {
        Some(path) => {
            let path = path.display();
            word(&format!("nothing is held: there is no store at {path} yet"));
            Ok(())
        }
        None => print(&listing, surface.service.keeps_leases(), &options),
    })
}

fn print(listing: &Listing, by_id: bool, options: &Ls) -> Result<(), Failure> {
    let waiting = listing.waiting.as_deref().unwrap_or_default();
    if listing.held.is_empty() && waiting.is_empty() {
        word(match options.prefix.is_some() || options.owner.is_some() {
            true => "nothing that matches is held",
            false if options.after.is_some() => "nothing more is held",
            false => "nothing is held",
        });
        return Ok(());
    }
    output::text(&View { listing, by_id }.text(crate::table::width()))?;
    if let Some(next) = listing.next.as_ref().or(listing.waiting_next.as_ref()) {
        word(&format!("there is more: --after '{next}'"));
    }
    Ok(())
}
