//! `tenure publish --verify` and `--history`.

use std::path::Path;
use std::process::ExitCode;

use tenure::Error;
use tenure_files::publish::PublishTarget;
use tenure_work::publish::{self, Manifest};

use super::Manifests;
use crate::cli::Global;
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::people::{counted, visible};
use crate::report::Failure;
use crate::table::{self, Table};
use crate::{exit, output, runtime};

/// Compares every file with the manifest.
pub fn verify(global: &Global, context: &Context, target: &Path) -> Result<ExitCode, Failure> {
    runtime::block_on_threads(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let publish_target = PublishTarget::new(target, "verify")?;
        let verified = publish::verify(&keeper, &publish_target)
            .await
            .map_err(not_found)?;
        output::answer(global.json, &verified, || {
            let line = |found: &publish::Difference| {
                format!(
                    "{}: {}\n",
                    visible(&found.relative_path),
                    visible(&found.problem)
                )
            };
            let lines: String = verified.differences.iter().map(line).collect();
            output::text(&lines)
        })?;
        let (shown, files) = (publish_target.target().display(), verified.files);
        match verified.differences.len() {
            0 => {
                word(&format!(
                    "{shown} has all of manifest {}: {}",
                    verified.manifest,
                    counted(files, "file")
                ));
                Ok(ExitCode::SUCCESS)
            }
            count => {
                word(&format!(
                    "{shown} differs from manifest {} in {}",
                    verified.manifest,
                    counted(count, "file")
                ));
                Ok(ExitCode::from(exit::code(tenure::Class::BadInput)))
            }
        }
    })
}

/// Shows what was published, oldest first.
pub fn history(global: &Global, context: &Context, target: &Path) -> Result<ExitCode, Failure> {
    runtime::block_on_threads(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let publish_target = PublishTarget::new(target, "history")?;
        let manifests = publish::history(&keeper, &publish_target)
            .await
            .map_err(not_found)?;
        let answer = Manifests::new(manifests);
        output::answer(global.json, &answer, || {
            if answer.manifests.is_empty() {
                word("nothing was published there");
            }
            output::text(&table(&answer.manifests).text(table::width(), &["AUTHOR", "OP TYPE"]))
        })
    })
}

fn not_found(error: Error) -> Failure {
    match error {
        Error::NotFound(_) => Failure::with_remedy(
            error,
            "name the target, and the store it was published with (--store)",
        ),
        error => error.into(),
    }
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
