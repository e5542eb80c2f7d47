//! `tenure ledger verify`: what is wrong with a ledger, and what was repaired.

use std::process::ExitCode;

use tenure::Class;
use tenure_ledger::Confirmed;

use super::open_ledger::{about, to_read};
use crate::cli::{Global, LedgerVerify};
use crate::exit;
use crate::output::{self, word};
use crate::report::Failure;
use crate::table::{self, Table};

/// Repairs nothing unasked.
pub fn verify(global: &Global, options: &LedgerVerify) -> Result<ExitCode, Failure> {
    let ledger = to_read(&options.place.directory)?;
    let verified = match (options.repair, options.yes) {
        (false, _) => ledger.verify(),
        (true, false) => ledger.repair(Confirmed::No),
        (true, true) => ledger.repair(Confirmed::Yes),
    };
    let verified = verified.map_err(about)?;
    if global.json {
        output::json(&verified)?;
    } else {
        let mut table = Table::new(vec!["FILE", "PROBLEM", "REPAIR"]);
        for finding in &verified.findings {
            table.push([
                finding.file.clone(),
                finding.problem.clone(),
                finding.repair.clone(),
            ]);
        }
        output::text(&table.text(table::width(), &["FILE", "PROBLEM", "REPAIR"]))?;
        let repaired = verified
            .findings
            .iter()
            .filter(|found| found.repaired)
            .count();
        let found = match (verified.findings.len() - repaired, repaired) {
            (0, 0) => "all in order".to_owned(),
            (found, 0) => format!("found wrong: {found}"),
            (found, repaired) => format!("repaired: {repaired}, still wrong: {found}"),
        };
        word(&format!("{} events, {found}", verified.events));
    }
    match verified.findings.iter().all(|finding| finding.repaired) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::from(exit::code(Class::BadInput))),
    }
}
