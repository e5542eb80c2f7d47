//! `tenure op ls`: the operations that are known here.

use std::process::ExitCode;

use tenure_api::op;

use crate::cli::Global;
use crate::output::word;
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure op ls
  tenure op ls --json | jq -r '.operations[].operation'

With --json prints {\"operations\":[{\"operation\",\"about\",\"needs\",\"count\",\"from\",
\"needs_approval\"}],\"next\"}.

Exit codes: 0 shown; 78 tenure.toml names a policy that is not known.";

/// Shows the operations, by name.
pub fn ls(global: &Global) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let all = surface.call(op::Ls {}, &surface.caller(None)?)?;
    surface.answer(&all, || {
        if all.operations.is_empty() {
            word("no operation is defined here: see tenure op --help");
        }
        let mut table = Table::new(vec!["OPERATION", "NEEDS", "ABOUT"]);
        for known in &all.operations {
            let needs = known.needs.iter().chain(&known.count);
            let needs: Vec<&str> = needs.map(String::as_str).collect();
            table.push([
                known.operation.clone(),
                needs.join(" "),
                known.about.clone(),
            ]);
        }
        table.print(&["NEEDS", "ABOUT"])
    })
}
