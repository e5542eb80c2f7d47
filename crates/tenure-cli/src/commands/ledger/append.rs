//! `tenure ledger append`: appends an event, and prints its number.

use std::io::{self, Read};
use std::process::ExitCode;

use clap::Args;
use tenure::{Error, Result};
use tenure_api::ledger;
use tenure_api::text::Json;
use tenure_ledger::event::EVENT_BYTES_MAX;

use super::failure::{about, answered};
use super::{Place, Terms};
use crate::cli::Global;
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Append {
    /// Append only if the newest event has this number; 0 if there is none
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Append only while this claim is held
    #[arg(long, value_name = "NODE#N")]
    pub token: Option<String>,
    #[command(flatten)]
    pub terms: Terms,
    #[command(flatten)]
    pub place: Place,
    /// The event, an object with a type; `-` is standard input
    #[arg(value_name = "JSON|-")]
    pub event: String,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ledger append proof '{\"type\":\"node_created\",\"node_id\":\"1.2\"}'
  tenure ledger append proof - < event.json
  tenure ledger append proof --expect 41 \"$event\"       only as event 42
  tenure ledger append proof --token 1.2#7 \"$event\"     only while 1.2#7 is held

Prints the number of the event. With --json prints {\"sequence\"}. What must be
atomic is one event: there are no transactions over several.

Exit codes: 0 on disk; 65 no JSON object with a type, over 1 MB, or an event of
claims; 66 there is no ledger; 69 the disk is full or broken, with the kind
\"unknown\" and a \"sequence\" if the event may be there: look; 75 locked for too
long; 76 another event came first (\"expected\", \"actual\" in JSON); 77 the claim
is over; 79 the lock was taken away meanwhile: look before you repeat it.";

/// Appends an event and prints its number. The event is durable by then.
pub fn append(global: &Global, options: Append) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let wait = options.terms.wait();
    let caller = surface.caller(options.terms.owner)?;
    let event = match options.event.as_str() {
        "-" => standard_input()?,
        _ => options.event,
    };
    let directory = options.place.directory;
    let request = ledger::Append {
        directory: directory.clone(),
        event: Json(event),
        expect: options.expect,
        token: options.token,
        wait,
    };
    let appended = surface.call_on_files(request, &caller).map_err(about)?;
    let sequence = appended.sequence;
    let answer = surface.answer(&appended, || output::text(&format!("{sequence}\n")));
    answered(answer, &directory, sequence)
}

/// Reads the event, up to twice the allowed size: enough to refuse one that is too large.
fn standard_input() -> Result<String> {
    let mut text = String::new();
    let mut input = io::stdin().take(2 * EVENT_BYTES_MAX as u64);
    match input.read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Error::BadInput("the event is not UTF-8".into()))
        }
        Err(source) => Err(Error::io("read", "standard input", source)),
    }
}
