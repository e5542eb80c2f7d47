//! `tenure ledger`: events that are never lost, and nodes that one agent works on.
//!
//! | file | what it does |
//! |---|---|
//! | `open_ledger` | opens the ledger of a command: settings, owner, wait |
//! | `append`, `log`, `claims`, `verify` | the commands |
//!
//! The format, the locks and the writes of a ledger are all in `tenure_files`.

mod append;
mod claims;
mod log;
mod open_ledger;
mod verify;

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::{Global, Ledger, LedgerInit};
use crate::output::{self, word};
use crate::report::Failure;

/// Carries out one of them.
pub fn ledger(global: &Global, command: Ledger) -> Result<ExitCode, Failure> {
    match command {
        Ledger::Init(options) => init(global, &options),
        Ledger::Append(options) => append::append(global, &options),
        Ledger::Log(options) => log::log(global, &options),
        Ledger::Show(options) => log::show(global, &options),
        Ledger::Verify(options) => verify::verify(global, &options),
        Ledger::Claim(options) => claims::claim(global, &options),
        Ledger::Release(options) => claims::release(global, &options),
        Ledger::Claims(options) => claims::claims(global, &options),
        Ledger::Reap(options) => claims::reap(global, &options),
    }
}

/// `{"ledger":DIR}`.
#[derive(Serialize)]
struct Made {
    ledger: String,
}

fn init(global: &Global, options: &LedgerInit) -> Result<ExitCode, Failure> {
    let directory = &options.place.directory;
    tenure_ledger::Ledger::init(directory, options.claim_ttl)?;
    let ledger = directory.display().to_string();
    match global.json {
        true => output::json(&Made { ledger })?,
        false => word(&format!("there is a ledger in {ledger}")),
    }
    Ok(ExitCode::SUCCESS)
}
