//! `tenure ledger log` and `show`: events in order, and one of them.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tenure::Error;
use tenure_ledger::Ledger;
use tenure_ledger::event::Event;

use super::open_ledger::{about, to_read};
use crate::cli::{Global, LedgerLog, LedgerShow};
use crate::output::{self, word};
use crate::report::Failure;
use crate::table::{self, Table};

const LIMIT: usize = 1000;

/// The interval of checks that somebody still reads the output.
const UNREAD_EVERY: Duration = Duration::from_millis(100);

/// `{"events":[…],"next":N}`.
#[derive(Serialize)]
struct Page {
    events: Vec<LedgerEventLine>,
    next: Option<u64>,
}

/// An event, its text as it was written.
#[derive(Serialize)]
struct LedgerEventLine {
    sequence: u64,
    event: Box<RawValue>,
}

/// Shows one page, or goes on with each event as it comes.
pub fn log(global: &Global, options: &LedgerLog) -> Result<ExitCode, Failure> {
    let ledger = to_read(&options.place.directory)?;
    let mut events = Vec::new();
    let mut last = options.after;
    // There is no page where all of it is wanted.
    let limit = match options.follow {
        true => options.limit.unwrap_or(usize::MAX),
        false => options.limit.unwrap_or(LIMIT),
    };
    for event in ledger.events_after(options.after) {
        if events.len() == limit {
            break;
        }
        let event = event.map_err(about)?;
        last = event.sequence;
        if !is_wanted(&event, options) {
            continue;
        }
        match options.follow {
            true => print_line(&event, global.json)?,
            false => events.push(event),
        }
    }
    if options.follow {
        return follow(&ledger, last, global, options);
    }
    let is_more = ledger.event(last + 1).map_err(about)?.is_some();
    let next = is_more.then_some(last);
    if global.json {
        let events = events.iter().map(shown).collect::<Result<_, _>>()?;
        output::json(&Page { events, next })?;
    } else {
        print_table(&events)?;
        if let Some(next) = next {
            word(&format!("there is more: --after {next}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on until it is ended from outside, or nobody reads what it prints.
fn follow(
    ledger: &Ledger,
    last: u64,
    global: &Global,
    options: &LedgerLog,
) -> Result<ExitCode, Failure> {
    let mut follow = ledger.follow(last);
    loop {
        match follow.next(Some(UNREAD_EVERY)).map_err(about)? {
            Some(event) if is_wanted(&event, options) => print_line(&event, global.json)?,
            None if output::is_unread() => return Ok(ExitCode::SUCCESS),
            _ => {}
        }
    }
}

/// Prints one event.
pub fn show(global: &Global, options: &LedgerShow) -> Result<ExitCode, Failure> {
    let ledger = to_read(&options.place.directory)?;
    let event = ledger.require_event(options.sequence).map_err(about)?;
    match global.json {
        true => output::json(&Page {
            events: vec![shown(&event)?],
            next: None,
        })?,
        false => output::exact(format!("{}\n", event.text.trim_end()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn is_wanted(event: &Event, options: &LedgerLog) -> bool {
    let kind = options.kind.as_deref();
    kind.is_none_or(|kind| event.kind().as_deref() == Some(kind))
}

fn shown(event: &Event) -> Result<LedgerEventLine, Failure> {
    let text = RawValue::from_string(event.text.trim().to_owned());
    let text = text.map_err(|error| Error::Internal(format!("an event is not JSON: {error}")))?;
    Ok(LedgerEventLine {
        sequence: event.sequence,
        event: text,
    })
}

fn print_line(event: &Event, json: bool) -> Result<(), Failure> {
    match json {
        true => output::json(&shown(event)?),
        false => output::text(&format!("{}  {}\n", event.sequence, in_one_line(event))),
    }
}

fn print_table(events: &[Event]) -> Result<(), Failure> {
    if events.is_empty() {
        word("there is no such event");
    }
    let mut table = Table::new(vec!["SEQUENCE", "TYPE", "EVENT"]);
    for event in events {
        let kind = event.kind().unwrap_or_default().into_owned();
        table.push([event.sequence.to_string(), kind, in_one_line(event)]);
    }
    output::text(&table.text(table::width(), &["EVENT"]))
}

fn in_one_line(event: &Event) -> String {
    let lines: Vec<&str> = event.text.lines().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}
