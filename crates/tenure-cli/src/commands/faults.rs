//! The faults that a look at a whole board or ledger found.

use std::process::ExitCode;

use serde::Serialize;
use tenure::Class;
use tenure_api::Finding;

use crate::exit;
use crate::output::said;
use crate::report::{Failure, render};
use crate::surface::Surface;
use crate::table::Table;

/// Prints what was found: in words the file, the problem and the repair of each fault. `whole` is
/// what was looked at. The exit code says if faults are left.
pub fn answer<T: Serialize>(
    surface: &Surface,
    mut verified: T,
    findings: fn(&mut T) -> &mut Vec<Finding>,
    whole: &str,
) -> Result<ExitCode, Failure> {
    let all = findings(&mut verified);
    all.iter_mut().for_each(|found| render(&mut found.repair));
    let all = all.clone();
    let repaired = all.iter().filter(|found| found.repaired).count();
    let left = all.len() - repaired;
    surface.answer(&verified, || {
        let headings = ["FILE", "PROBLEM", "REPAIR"];
        let mut table = Table::new(headings.to_vec());
        for found in all {
            table.push([found.file, found.problem, found.repair.to_string()]);
        }
        table.print(&headings)?;
        let found = match (left, repaired) {
            (0, 0) => "all in order".to_owned(),
            (found, 0) => format!("found wrong: {found}"),
            (found, repaired) => format!("repaired: {repaired}, still wrong: {found}"),
        };
        said(&format!("{whole}, {found}"))
    })?;
    Ok(match left {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::code(Class::BadInput)),
    })
}
