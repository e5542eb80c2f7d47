//! The findings about a ledger or a board, and their repairs, as they are shown.

use std::process::ExitCode;

use serde::Serialize;
use tenure::Class;
use tenure_api::Finding;

use crate::exit;
use crate::output::{self, word};
use crate::report::{Failure, render};
use crate::table::{self, Table};

/// Prints findings as JSON or in words. `seen` names everything that was looked at.
pub fn answer<T: Serialize>(
    json: bool,
    mut verified: T,
    findings: fn(&mut T) -> &mut Vec<Finding>,
    seen: &str,
) -> Result<ExitCode, Failure> {
    for finding in findings(&mut verified) {
        render(&mut finding.repair);
    }
    let all = findings(&mut verified).clone();
    let repaired = all.iter().filter(|found| found.repaired).count();
    let left = all.len() - repaired;
    output::answer(json, &verified, || {
        let mut table = Table::new(vec!["FILE", "PROBLEM", "REPAIR"]);
        for found in all {
            table.push([found.file, found.problem, found.repair.to_string()]);
        }
        output::text(&table.text(table::width(), &["FILE", "PROBLEM", "REPAIR"]))?;
        let found = match (left, repaired) {
            (0, 0) => "all in order".to_owned(),
            (found, 0) => format!("found wrong: {found}"),
            (found, repaired) => format!("repaired: {repaired}, still wrong: {found}"),
        };
        word(&format!("{seen}, {found}"));
        Ok(())
    })?;
    Ok(ExitCode::from(match left {
        0 => exit::DONE,
        _ => exit::code(Class::BadInput),
    }))
}
