//! `tenure advisory ls`: who holds and who waits.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use tenure::{Timestamp, duration};
use tenure_postgres::advisory::{AdvisoryLocks, LockEntry, Namespace};

use crate::output::{self, word};
use crate::report::Failure;
use crate::table::{self, Table};

/// `{"locks":[…],"total":…,"next":null}`.
/// A lock as the monitor has it; `id` is what it calls `entity_id`.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    lock: &'a LockEntry,
    id: i64,
}

/// Shows every holder and every waiter.
pub async fn ls(locks: &AdvisoryLocks, json: bool) -> Result<ExitCode, Failure> {
    let locks = locks.list().await?.locks;
    if json {
        let entry = |lock| Entry {
            lock,
            id: lock.entity_id,
        };
        let entries: Vec<Entry<'_>> = locks.iter().map(entry).collect();
        let next = Value::Null;
        output::json(&json!({ "locks": entries, "total": locks.len(), "next": next }))?;
    } else if locks.is_empty() {
        word("no advisory lock is held");
    } else {
        let cuttable = ["PROGRAM", "STATE"];
        output::text(&in_rows(&locks).text(table::width(), &cuttable))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_rows(locks: &[LockEntry]) -> Table {
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
    for lock in locks {
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

/// `agent (1)`, or the number alone.
fn shown(namespace: Namespace) -> String {
    match namespace {
        Namespace::AGENT => format!("agent ({namespace})"),
        Namespace::CHANNEL => format!("channel ({namespace})"),
        other => other.to_string(),
    }
}
