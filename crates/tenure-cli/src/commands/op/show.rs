//! `tenure op show`: the locks that an operation needs.

use std::process::ExitCode;

use clap::Args;
use tenure_api::op::{self, Scope};

use crate::cli::Global;
use crate::cli::values::parse_with;
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

#[derive(Debug, Args)]
pub struct Show {
    /// The operation, such as map.calibrate
    #[arg(value_name = "OPERATION")]
    pub operation: String,
    /// What it is about, such as project=atlas; several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_with)]
    pub with: Vec<(String, String)>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure op show map.bulk
  tenure op show map.bulk --with project=atlas --with map=m3 --with objects=5000

Takes no lock. Without --with it shows the locks with the keys in them. With it,
exactly the locks that `tenure run --op` would take, in that order, and why.
With --json prints {\"operations\":[{\"operation\",\"about\",\"locks\":[{\"resource\",
\"mode\",\"why\"}]}],\"next\"}.

Exit codes: 0 shown; 65 the operation or a key is not known, or something is
missing, which the message names; 78 bad configuration.";

/// Shows the locks of an operation, in the order in which they are taken.
pub fn show(global: &Global, options: Show) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let request = op::Show {
        operation: options.operation,
        with: Scope::new(options.with)?,
    };
    let shown = surface.call(request, &surface.caller(None)?)?;
    surface.answer(&shown, || {
        for needing in &shown.operations {
            let mut table = Table::new(vec!["LOCK", "MODE", "WHY"]);
            for lock in &needing.locks {
                table.push([
                    lock.resource.clone(),
                    lock.mode.to_string(),
                    lock.why.clone(),
                ]);
            }
            output::text(&format!("{}: {}\n", needing.operation, needing.about))?;
            table.print(&["LOCK", "WHY"])?;
        }
        Ok(())
    })
}
