//! `tenure audit`: shows the record of what was done to locks.

use std::process::ExitCode;

use tenure::{AuditPage, AuditQuery};

use crate::cli::{self, Global, Slot};
use crate::context::Context;
use crate::output::word;
use crate::report::Failure;
use crate::table::{self, Table};
use crate::{output, runtime};

/// Shows one page of the record, oldest first.
pub fn audit(global: &Global, options: cli::Audit) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let resource = options.resource.as_ref();
    let of_slots = resource.is_some_and(|resource| resource.kind() == Slot::KIND);
    let mut query = AuditQuery::default();
    query.resource = options.resource;
    query.since = options.since;
    query.limit = options.limit;
    query.after = options.after;
    runtime::block_on(async {
        let keeper = context.keeper_or_slots(of_slots).await?;
        let page = keeper.audit(&query).await?;
        output::answer(global.json, &page, || print_table(&page))
    })
}

fn print_table(page: &AuditPage) -> Result<(), Failure> {
    if page.entries.is_empty() {
        word("nothing is on record");
    }
    output::text(&table(page).text(table::width(), &["RESOURCE", "OWNER", "ACTOR", "REASON"]))?;
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
