//! `tenure publish --verify` and `--history`.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tenure::Error;
use tenure_files::publish::PublishTarget;
use tenure_work::publish::{self, Manifest, Verified};

use super::Manifests;
use crate::cli::Global;
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::people::{counted, visible};
use crate::report::{Body, Failure};
use crate::table::{self, Table};
use crate::{output, runtime};

/// Compares every file with the manifest.
pub fn verify(global: &Global, context: &Context, target: &Path) -> Result<ExitCode, Failure> {
    runtime::block_on_threads(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let publish_target = PublishTarget::new(target, "verify")?;
        let verified = publish::verify(&keeper, &publish_target)
            .await
            .map_err(not_found)?;
        let target = publish_target.target();
        let failure = difference(target, &verified);
        let answer = Answer {
            verified: &verified,
            error: failure.as_ref().map(Failure::body),
        };
        output::answer(global.json, &answer, || {
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
        match failure {
            Some(failure) if global.json => Ok(ExitCode::from(failure.code())),
            Some(failure) => Err(failure),
            None => {
                word(&format!(
                    "{} has all of manifest {}: {}",
                    target.display(),
                    verified.manifest,
                    counted(verified.files, "file")
                ));
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// `{"manifest","files","differences":[…]}`, and the error if there are differences.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    verified: &'a Verified,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Body<'a>>,
}

/// Returns the error for a directory that differs from its manifest.
fn difference(target: &Path, verified: &Verified) -> Option<Failure> {
    let count = verified.differences.len();
    let problem = format!(
        "{} differs from manifest {} in {}",
        target.display(),
        verified.manifest,
        counted(count, "file")
    );
    let remedy = "find out what changed it, and publish it again";
    (count > 0).then(|| Failure::with_remedy(Error::BadInput(problem), remedy))
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
