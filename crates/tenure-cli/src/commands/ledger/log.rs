//! `tenure ledger log`: events in order.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_api::ledger::{self, Event};

use super::Place;
use super::failure::about;
use crate::cli::Global;
use crate::cli::values::parse_limit;
use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

/// The interval of checks that a reader still takes the output.
const UNREAD_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct Log {
    /// Only events after this number
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub after: u64,
    /// At most this many (default: 1000)
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Go on with each event as it comes
    #[arg(long)]
    pub follow: bool,
    #[command(flatten)]
    pub place: Place,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger log proof --after 40
  tenure ledger log proof --type node_proved --json
  tenure ledger log proof --follow --json      one object a line

Takes no lock. With --json prints {\"events\":[{\"sequence\",\"event\"}],\"next\"};
next is for --after, and null at the end. Also reads ledgers of files like 000001.json.

Exit codes: 0 shown; 65 an event is torn; 66 there is no ledger.";

/// Shows one page, or goes on with each event as it comes.
pub fn log(global: &Global, options: Log) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(None)?;
    let request = ledger::Log {
        directory: options.place.directory,
        after: options.after,
        limit: options.limit,
        kind: options.kind,
    };
    if options.follow {
        let follow = surface.service.follow_ledger(request, &caller);
        let mut follow = follow.map_err(|error| about(error.into()))?;
        // The loop ends from outside, or when no reader takes the output any more.
        loop {
            match follow
                .next(UNREAD_EVERY)
                .map_err(|error| about(error.into()))?
            {
                Some(event) => print_line(&event, global.json)?,
                None if output::is_unread() => return Ok(ExitCode::SUCCESS),
                None => {}
            }
        }
    }
    let page = surface.call(request, &caller).map_err(about)?;
    surface.answer(&page, || {
        print_table(&page.events)?;
        if let Some(next) = page.next {
            word(&format!("there is more: --after {next}"));
        }
        Ok(())
    })
}

fn print_line(event: &Event, json: bool) -> Result<(), Failure> {
    match json {
        true => output::json(event),
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
    table.print(&["EVENT"])
}

fn in_one_line(event: &Event) -> String {
    let lines: Vec<&str> = event.text.lines().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}
