//! `tenure publish --history`: the directories that were published to a target, oldest first.

use std::path::PathBuf;
use std::process::ExitCode;

use tenure_api::publish::{History, Manifest};

use crate::output::word;
use crate::report::Failure;
use crate::surface::Surface;
use crate::table::Table;

/// Shows the manifests.
pub fn history(surface: &Surface, target: PathBuf) -> Result<ExitCode, Failure> {
    let found = surface.call(History { target }, &surface.caller(None)?)?;
    surface.answer(&found, || {
        if found.manifests.is_empty() {
            word("nothing was published there");
        }
        table(&found.manifests).print(&["AUTHOR", "OP TYPE"])
    })
}

fn table(manifests: &[Manifest]) -> Table {
    let mut table = Table::new(vec![
        "MANIFEST", "STATE", "CREATED", "FILES", "AUTHOR", "OP TYPE",
    ]);
    for manifest in manifests {
        table.push([
            manifest.id.clone(),
            manifest.state.to_string(),
            manifest.created_at.to_string(),
            manifest.files.len().to_string(),
            manifest.author.to_string(),
            manifest.op_type.clone(),
        ]);
    }
    table
}
