//! Checks of published directories, `--verify` and `--history`, which take no lock.

use super::error::PublishError;
use tenure::records::{Column, RecordQuery, Records};
use tenure::{Error, Keeper, Result};
use tenure_files::publish::{Difference, PublishTarget, PublishedFile};
use tenure_os::blocking::blocking;
use tenure_os::machine;

use super::manifest::{self, Target, key, target_key};
use super::{Manifest, Verified};
use crate::all_records::all_records;

/// The number of tries to compare a directory while others publish over it.
const TRIES: usize = 3;

/// Compares every file of a target with the manifest that is committed there.
///
/// # Errors
///
/// `NotFound` if nothing was ever published there from this machine; `Conflict` if it differs while
/// a publish is not finished, which may have put it there.
pub async fn verify(keeper: &Keeper, publish_target: &PublishTarget) -> Result<Verified> {
    let records = keeper.records("publish")?;
    let target = publish_target.target().to_string_lossy().into_owned();
    for _ in 0..TRIES {
        let (manifest, pending) = committed(&records, &target).await?;
        let files = files_of(&records, &manifest).await?;
        let before = publish_target.inode_of_target()?;
        let differences = match before {
            Some(_) => blocking(|| publish_target.compare(&files))?,
            None => everything_is_missing(&files),
        };
        // The comparison counts only if no other directory was put in place meanwhile.
        if publish_target.inode_of_target()? == before
            && committed(&records, &target).await?.0.id == manifest.id
        {
            if let (Some(pending), false) = (pending, differences.is_empty()) {
                return Err(Error::conflict(
                    format!(
                        "{target} differs from manifest {}, and publish {pending} is not finished",
                        manifest.id
                    ),
                    "run {recover}, then verify it again",
                ));
            }
            return Ok(Verified {
                target: publish_target.target().to_owned(),
                manifest: manifest.id,
                files: files.len(),
                differences,
            });
        }
    }
    Err(Error::BadInput(format!(
        "{target} is published again and again; verify it when that is over"
    )))
}

fn everything_is_missing(files: &[PublishedFile]) -> Vec<Difference> {
    let missing = |file: &PublishedFile| Difference {
        relative_path: file.relative_path.clone(),
        problem: "it is missing".into(),
    };
    let directory = Difference {
        relative_path: ".".into(),
        problem: "the directory is missing".into(),
    };
    let files = files.iter().map(missing);
    std::iter::once(directory).chain(files).collect()
}

/// Returns the manifest that is committed, and the id of one that is pending.
async fn committed(records: &Records<'_>, target: &str) -> Result<(Manifest, Option<String>)> {
    let record = records.read(&target_key(machine::id(), target)?).await?;
    let missing = || {
        let target = target.to_owned();
        Error::from(PublishError::NeverPublished { target })
    };
    let seen = Target::seen(record.as_ref())?;
    let id = seen.committed.ok_or_else(missing)?;
    let record = records.read(&key("manifest", &id)?).await?;
    let manifest = manifest::of(&record.ok_or_else(missing)?)?;
    Ok((manifest, seen.pending.into_iter().next()))
}

pub(super) async fn files_of(
    records: &Records<'_>,
    manifest: &Manifest,
) -> Result<Vec<PublishedFile>> {
    let mut files = Vec::new();
    for number in 0..manifest.parts {
        let part = key("manifest_files", &format!("{}/{number:04}", manifest.id))?;
        let corrupt = |problem: String| Error::corrupt("records", format!("{part}: {problem}"));
        let record = records.read(&part).await?;
        let record = record.ok_or_else(|| corrupt("it is missing".into()))?;
        let mut body = record.body;
        let part_files: Vec<PublishedFile> = serde_json::from_value(body["files"].take())
            .map_err(|error| corrupt(error.to_string()))?;
        files.extend(part_files);
    }
    Ok(files)
}

/// Returns the manifests of a target, oldest first, with their files.
pub async fn history(keeper: &Keeper, publish_target: &PublishTarget) -> Result<Vec<Manifest>> {
    let records = keeper.records("publish")?;
    let target = publish_target.target().to_string_lossy().into_owned();
    let query = RecordQuery::new("manifest").with_column(Column::Subject(target));
    let mut manifests = Vec::new();
    for record in all_records(&records, query).await? {
        let mut manifest = manifest::of(&record)?;
        manifest.files = files_of(&records, &manifest).await?;
        manifests.push(manifest);
    }
    Ok(manifests)
}

/// Fails for a target that contains other published targets: they would be gone, and their
/// manifests would not know it.
pub(super) async fn check_inner_targets(
    records: &Records<'_>,
    publish_target: &PublishTarget,
) -> Result<()> {
    let target = publish_target.target().to_string_lossy();
    let inside = format!("{}:{target}/", machine::id());
    let mut query = RecordQuery::new("target");
    query.after = Some(inside.clone());
    loop {
        let page = records.list(&query).await?;
        for record in &page.records {
            let Some(inner) = record.key.id().strip_prefix(&inside) else {
                return Ok(());
            };
            let path = publish_target.target().join(inner);
            if path.exists() {
                let path = path.display();
                return Err(Error::BadInput(format!(
                    "{path} was published to, and lies inside of {target}, which would be replaced: publish to another directory"
                )));
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(());
        }
    }
}
