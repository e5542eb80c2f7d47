//! The faults that a look at a whole board or ledger found.

use std::process::ExitCode;

use tenure::Class;

use crate::exit;
use crate::output::said;
use crate::report::Failure;
use crate::table::Table;

/// Prints them: the file, the problem and the repair of each. `whole` is what was looked at.
pub fn print(
    whole: &str,
    faults: impl IntoIterator<Item = [String; 3]>,
    (left, repaired): (usize, usize),
) -> Result<(), Failure> {
    let headings = ["FILE", "PROBLEM", "REPAIR"];
    let mut table = Table::new(headings.to_vec());
    faults.into_iter().for_each(|fault| table.push(fault));
    table.print(&headings)?;
    let found = match (left, repaired) {
        (0, 0) => "all in order".to_owned(),
        (found, 0) => format!("found wrong: {found}"),
        (found, repaired) => format!("repaired: {repaired}, still wrong: {found}"),
    };
    said(&format!("{whole}, {found}"))
}

/// Returns the exit code, of which one says that faults are left.
pub fn exit_code(left: usize) -> ExitCode {
    match left {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::code(Class::BadInput)),
    }
}
