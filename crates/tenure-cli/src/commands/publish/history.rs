//! `tenure publish --history`: what was published to a target, oldest first.

use std::path::PathBuf;
use std::process::ExitCode;

use tenure_api::publish::{History, Manifest};

use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::{self, Table};

/// Shows the manifests.
pub fn history(surface: &Surface, target: PathBuf) -> Result<ExitCode, Failure> {
    let found = surface.call(History { target }, &surface.caller(None)?)?;
    surface.answer(&found, || {
        if found.manifests.is_empty() {
            word("nothing was published there");
        }
        output::text(&table(&found.manifests).text(table::width(), &["AUTHOR", "OP TYPE"]))
    })
}

fn table(manifests: &[Manifest]) -> Table {
    let mut table = Table::new(vec![
        "MANIFEST", "STATE", "CREATED", "FILES", "AUTHOR", "OP TYPE",
    ]);
    for manifest in manifests {
        table.push([
            manifest.id.clone(),
            manifest.state.as_str().to_owned(),
            manifest.created_at.to_string(),
            manifest.files.len().to_string(),
            manifest.author.to_string(),
            manifest.op_type.clone(),
        ]);
    }
    table
}
