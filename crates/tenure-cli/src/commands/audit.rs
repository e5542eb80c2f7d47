//! `tenure audit`: shows the record of all changes of locks.

use std::process::ExitCode;

use clap::Args;
use tenure::audit::AuditPage;
use tenure::{Resource, Timestamp};
use tenure_api::leases;

use crate::cli::Global;
use crate::cli::values::{bytes, parse_audit_cursor, parse_limit, parse_resource, parse_since};
use crate::output::word;
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

#[derive(Debug, Args)]
pub struct Audit {
    /// Only what was done to this resource
    #[arg(long, value_parser = bytes(parse_resource))]
    pub resource: Option<Resource>,
    /// Only from then on: a time, or how long ago, such as 1h
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Timestamp>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says
    #[arg(long, value_name = "CURSOR", value_parser = parse_audit_cursor)]
    pub after: Option<String>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure audit --since 1h
  tenure audit --resource deploy
  tenure audit --since 2026-01-31T12:00:00Z --json | jq '.entries[]'

The oldest entry comes first. Nothing in the record is ever changed or removed.
Actions are acquire, upgrade, downgrade, release, expire (a grant was not taken
up), recover, session_ended (its session died), break, and lost (the holder did
not stop).";

/// Shows one page of the record, oldest first.
pub fn audit(global: &Global, options: Audit) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(None)?;
    let request = leases::Audit {
        resource: options.resource,
        since: options.since,
        limit: options.limit,
        after: options.after,
    };
    let page = surface.call(request, &caller)?;
    surface.answer(&page, || print_table(&page))
}

fn print_table(page: &AuditPage) -> Result<(), Failure> {
    if page.entries.is_empty() {
        word("nothing is on record");
    }
    table(page).print(&["RESOURCE", "OWNER", "ACTOR", "REASON"])?;
    if let Some(next) = &page.next {
        word(&format!(
            "there is more: --after '{next}', or begin later with --since"
        ));
    }
    Ok(())
}

fn table(page: &AuditPage) -> Table {
    let mut table = Table::new(vec![
        "AT", "ACTION", "RESOURCE", "LEASE", "TOKEN", "OWNER", "ACTOR", "REASON",
    ]);
    for entry in &page.entries {
        table.push([
            entry.at.to_string(),
            entry.action.as_str().to_owned(),
            entry.resource.to_string(),
            shown(entry.lease.as_ref()),
            shown(entry.token),
            entry.owner.to_string(),
            entry.actor.to_string(),
            entry.reason.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}
