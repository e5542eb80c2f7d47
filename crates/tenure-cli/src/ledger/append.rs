//! `tenure ledger append`: appends an event, and prints its number.

use std::io::{self, Read};
use std::process::ExitCode;

use serde_json::json;
use tenure::{Error, Result};
use tenure_ledger::AppendTerms;
use tenure_ledger::event::EVENT_BYTES_MAX;

use super::open_ledger::{OpenLedger, answered};
use crate::cli::{Global, LedgerAppend};
use crate::output;
use crate::report::Failure;

/// The event is on disk when its number is printed.
pub fn append(global: &Global, options: &LedgerAppend) -> Result<ExitCode, Failure> {
    let token = options.token.as_deref().map(str::parse);
    let terms = AppendTerms {
        expect: options.expect,
        claim: token.transpose()?,
    };
    let opened = OpenLedger::open(&options.terms, &options.place.directory, None)?;
    let event = match options.event.as_str() {
        "-" => standard_input()?,
        event => event.to_owned(),
    };
    let sequence = opened.wait(|ledger| ledger.append_on(&event, terms))?;
    let in_words = || output::text(&format!("{sequence}\n"));
    let answer = output::answer(global.json, &json!({ "sequence": sequence }), in_words);
    answered(answer, &options.place.directory, sequence)
}

/// An event that is too large is read only as far as needed to know that.
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
