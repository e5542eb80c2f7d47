//! `tenure advisory ls`: the holders and the waiters.

use std::process::ExitCode;

use tenure::{Timestamp, duration};
use tenure_api::advisory::{self, Entry};
use tenure_core::advisory::Namespace;

use crate::output::word;
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure advisory ls
  tenure advisory ls --json | jq '.locks[] | select(.granted)'

Every holder and every waiter of this database. NAMESPACE is that of the form
with two numbers; a key of one 64-bit number has none. HELD is known of Tenure's
own only. With --json: {\"locks\":[{\"pid\",\"application_name\",\"state\",
\"query_start\",\"namespace\",\"id\",\"mode\",\"granted\",\"duration\"}],\"total\",
\"next\":null}, the duration in seconds.";

/// Shows every holder and every waiter.
pub fn ls(surface: &Surface) -> Result<ExitCode, Failure> {
    let listed = surface.call(advisory::Ls {}, &surface.caller(None)?)?;
    surface.answer(&listed, || {
        if listed.locks.is_empty() {
            word("no advisory lock is held");
            return Ok(());
        }
        let cuttable = ["PROGRAM", "STATE"];
        in_rows(&listed.locks).print(&cuttable)
    })
}

fn in_rows(locks: &[Entry]) -> Table {
    let mut table = Table::new(vec![
        "NAMESPACE",
        "ID",
        "MODE",
        "GRANTED",
        "PID",
        "HELD",
        "STATE",
        "QUERY START",
        "PROGRAM",
    ]);
    let unknown = || "-".to_owned();
    for Entry { lock, .. } in locks {
        table.push([
            lock.namespace.map_or_else(unknown, shown),
            lock.entity_id.to_string(),
            lock.mode.to_string(),
            if lock.granted { "yes" } else { "waits" }.to_owned(),
            lock.pid.to_string(),
            lock.held_for.map_or_else(unknown, duration::show),
            lock.state.clone().unwrap_or_else(unknown),
            lock.query_start
                .map_or_else(unknown, |at: Timestamp| at.to_string()),
            lock.application_name.clone().unwrap_or_else(unknown),
        ]);
    }
    table
}

/// Returns the word and the number, as in `agent (1)`, or the number alone.
fn shown(namespace: Namespace) -> String {
    match namespace {
        Namespace::AGENT => format!("agent ({namespace})"),
        Namespace::CHANNEL => format!("channel ({namespace})"),
        other => other.to_string(),
    }
}
