//! Publish: a directory put in place whole, with a manifest that lists its files.
//!
//! [`tenure_files::publish`] describes the ten steps, their crashes and their races, and has the
//! half about files. The half about the store is here: the manifest, and the lease and token that
//! are compared whenever it is written.
//!
//! | file | step |
//! |---|---|
//! | `manifest` | the manifest as records, and as JSON shows it |
//! | here | steps 1 to 9 |
//! | `recover` | a publish that crashed is finished or given up; leftovers are removed |
//! | `look` | `--verify` and `--history`, which take no lock |
//!
//! # Records
//!
//! | kind | id | what it holds |
//! |---|---|---|
//! | `manifest` | the manifest's id, which begins with the time | everything but the files; by state, author and target |
//! | `manifest_files` | `ID/NUMBER` | a part of the files: 100,000 do not fit into one record |
//! | `target` | `MACHINE:PATH` | the committed manifest, and the pending ones. Every change of a manifest of this target names it |
//! | `leftover` | the manifest's id | a sign that tmp may still be there; removed with tmp |
//!
//! # The right to write
//!
//! Every change of a manifest compares the lease of the publisher and its token. The store refuses
//! a publisher that was overtaken (77), before a name is touched. A manifest of another machine is
//! never judged here: its target may be another directory of that name.

#[cfg(test)]
mod crashes;
mod error;
mod look;
mod manifest;
mod recover;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::audit::Action;
use tenure::records::{Changes, Fence, NewEntry, Record, RecordChange, Records, Seen};
use tenure::store::Asker;
use tenure::{Error, Keeper, Owner, Result};
use tenure_files::publish::{Copied, Inode, PublishTarget};
use tenure_os::blocking::blocking;
use tenure_os::cancel::Cancel;

pub use look::{history, verify};
pub(crate) use manifest::id_time;
pub use manifest::new_id;
pub use recover::{recover, remove_leftover};
pub use tenure_api::publish::{Manifest, ManifestState, Outcome, Recovered, Removed, Verified};
pub use tenure_files::publish::{Difference, Progress, PublishedFile};

/// A request for a publish, whose caller holds the lease.
pub struct Request<'a> {
    /// The directory to publish.
    pub source: PathBuf,
    /// The path where the directory is put.
    pub publish_target: &'a PublishTarget,
    /// The id of the manifest, which names tmp, too.
    pub id: String,
    /// The operation that made the directory, for people.
    pub op_type: String,
    /// The lease that the caller holds.
    pub fence: Fence,
    /// The owner, process and host.
    pub asker: Asker,
    /// The time to wait for another publisher that is between steps 5 and 7.
    pub wait: Duration,
}

/// Publishes: steps 1 to 9. The caller releases the lease, and calls [`remove_leftover`] after
/// that.
///
/// # Errors
///
/// `BadInput` for a source that changed, that cannot be published, or that is on another device
/// than the target; `NotAllowed` and `LeaseOver` if the lease was lost; `Timeout` if another
/// publisher is stopped in the middle of its work. With these errors the target is as it was.
/// `HalfWay` if the target is new and the manifest could not be written: recovery writes it.
pub async fn publish(
    keeper: &Keeper,
    request: &Request<'_>,
    progress: &Progress,
) -> Result<Manifest> {
    check(keeper.url(), &request.source, request.publish_target)?;
    publish_with(keeper, keeper.records("publish")?, request, progress).await
}

/// Publishes with these records, after all checks that need no store.
async fn publish_with(
    keeper: &Keeper,
    records: Records<'_>,
    request: &Request<'_>,
    progress: &Progress,
) -> Result<Manifest> {
    look::check_inner_targets(&records, request.publish_target).await?;
    let publisher = Publisher { records, request };
    recover::pending_of(keeper, &publisher, &progress.cancel).await?;
    let mut manifest = publisher.begin().await?;
    match publisher.swap(&mut manifest, progress).await {
        Ok(files) => publisher.commit(manifest, files).await,
        Err(error) => Err(publisher.give_up(manifest, error).await),
    }
}

/// Makes all checks that are possible before a store is opened.
///
/// # Errors
///
/// Errors of [`PublishTarget::check_source`] and [`PublishTarget::check_target`]; `BadInput` if the
/// store lies inside of the target: it would be replaced, with the manifest in it.
pub fn check(store_url: &str, source: &Path, publish_target: &PublishTarget) -> Result<()> {
    publish_target.check_source(source)?;
    publish_target.check_target()?;
    let store = store_url.strip_prefix("sqlite:").map(Path::new);
    let directory = store.and_then(|store| store.parent()?.canonicalize().ok());
    let target = publish_target.target();
    match directory.filter(|directory| directory.starts_with(target)) {
        None => Ok(()),
        Some(directory) => Err(Error::BadInput(format!(
            "the store in {} lies inside of {}, which would be replaced: publish to another directory",
            directory.display(),
            target.display()
        ))),
    }
}

/// The writer of the manifest of one publish.
struct Publisher<'a> {
    records: Records<'a>,
    request: &'a Request<'a>,
}

impl Publisher<'_> {
    /// Step 1: the manifest is pending, durably, before anything is written.
    async fn begin(&self) -> Result<Manifest> {
        let manifest = manifest::pending(self.request)?;
        let decide = |seen: &Seen| {
            let mut changes = Changes::default();
            let target = manifest::target_after(&manifest, seen)?.with_pending(&manifest.id);
            target.put(&mut changes, &manifest)?;
            manifest::put(&manifest, &mut changes)?;
            manifest::put_leftover(&manifest, &mut changes)?;
            Ok(changes)
        };
        self.change(&manifest, &decide).await?;
        Ok(manifest)
    }

    /// Steps 2 to 7.
    async fn swap(
        &self,
        manifest: &mut Manifest,
        progress: &Progress,
    ) -> Result<Vec<PublishedFile>> {
        let publish_target = self.request.publish_target;
        manifest.new = Some(blocking(|| publish_target.make_tmp())?);
        self.write_pending(manifest).await?;
        let copied = blocking(|| publish_target.copy(&self.request.source, progress))?;
        self.prepare(manifest, &copied, &progress.cancel).await?;
        Ok(copied.files)
    }

    /// The end of step 5: hashes and inodes are in the manifest, durably, if lease and token are
    /// good, and the lock beside the target is held from that comparison to the end of step 7.
    async fn prepare(
        &self,
        manifest: &mut Manifest,
        copied: &Copied,
        cancel: &Cancel,
    ) -> Result<()> {
        let parts = manifest::parts(&manifest.id, &copied.files)?;
        for (key, columns, body) in &parts {
            let decide = |_: &Seen| {
                let mut changes = Changes::default();
                changes.put(key.clone(), columns.clone(), body.clone());
                Ok(changes)
            };
            let change =
                RecordChange::new([key.clone()], &decide).under(self.request.fence.clone());
            self.records.change(&change).await?;
        }
        let publish_target = self.request.publish_target;
        let lock = blocking(|| {
            let asker = self.request.asker.clone();
            publish_target.lock(self.request.wait, asker, cancel)
        })?;
        blocking(|| publish_target.check_target())?;
        manifest.old = blocking(|| publish_target.inode_of_target())?;
        manifest.mode = Some(format!("{:o}", copied.mode));
        (manifest.parts, manifest.bytes) = (parts.len(), copied.bytes);
        self.write_pending(manifest).await?;
        let new = manifest.new.as_ref();
        let new = new.ok_or_else(|| Error::Internal("no directory was made".into()))?;
        blocking(|| {
            lock.check()?;
            publish_target.swap(manifest.old.as_ref(), new, copied.mode)
        })
    }

    /// Writes the manifest as far as it is known by now, still pending.
    async fn write_pending(&self, manifest: &Manifest) -> Result<()> {
        let decide = |seen: &Seen| {
            manifest::require_pending(manifest, seen)?;
            let mut changes = Changes::default();
            manifest::put(manifest, &mut changes)?;
            Ok(changes)
        };
        self.change(manifest, &decide).await.map(drop)
    }

    /// Steps 8 and 9.
    async fn commit(&self, manifest: Manifest, files: Vec<PublishedFile>) -> Result<Manifest> {
        let committed = self
            .end(&manifest, ManifestState::Committed, "published")
            .await;
        match committed {
            Ok(committed) => Ok(Manifest { files, ..committed }),
            Err(error) => Err(Error::HalfWay {
                done: format!(
                    "{} is in place, and its manifest {} was not committed by this publish: if it is pending, the next publish or a recovery commits it",
                    manifest.target, manifest.id
                ),
                source: Box::new(error),
            }),
        }
    }

    /// Gives up a publish that failed before its target was new: says so in the manifest, and
    /// removes the new directory. Recovery does the rest if that fails, too.
    async fn give_up(&self, manifest: Manifest, error: Error) -> Error {
        let publish_target = self.request.publish_target;
        let is_new = |new: &Inode| {
            let outcome = publish_target.judge(manifest.old.as_ref(), Some(new), true);
            !matches!(outcome, Ok(tenure_files::publish::CrashOutcome::Aborted))
        };
        // A step after the rename failed: recovery judges the directory in place.
        if manifest.new.as_ref().is_some_and(is_new) {
            return Error::HalfWay {
                done: format!(
                    "{} was put in place, and the disk may not keep it",
                    manifest.target
                ),
                source: Box::new(error),
            };
        }
        let reason = error.to_string();
        drop(self.end(&manifest, ManifestState::Aborted, &reason).await);
        let (owner, disk) = (&self.request.asker.owner, publish_target.disk());
        drop(recover::remove(&self.records, &manifest, owner, disk).await);
        error
    }

    /// Writes the end of a manifest, with an entry in the audit, and returns the manifest as
    /// written.
    async fn end(
        &self,
        manifest: &Manifest,
        state: ManifestState,
        reason: &str,
    ) -> Result<Manifest> {
        let request = self.request;
        let change = |seen: &Seen| {
            manifest::require_pending(manifest, seen)?;
            manifest::end(
                manifest,
                seen,
                state,
                &request.asker.owner,
                &request.fence,
                reason,
            )
        };
        let written = self.change(manifest, &change).await?;
        manifest::among(&written, &manifest.id)
    }

    /// Makes a change that names everything about a manifest, and compares the lease.
    async fn change(
        &self,
        manifest: &Manifest,
        decide: &(dyn Fn(&Seen) -> Result<Changes> + Send + Sync),
    ) -> Result<Vec<Record>> {
        let change =
            RecordChange::new(manifest::keys(manifest)?, decide).under(self.request.fence.clone());
        self.records.change(&change).await
    }
}

/// Returns an entry for the audit about a manifest.
fn note(
    action: Action,
    manifest: &Manifest,
    actor: &Owner,
    fence: Option<&Fence>,
    reason: String,
) -> NewEntry {
    NewEntry {
        action,
        resource: manifest.resource.clone(),
        lease: fence.and_then(|fence| fence.lease.clone()),
        token: fence.map(|fence| fence.token),
        owner: manifest.author.clone(),
        actor: actor.clone(),
        reason: Some(tenure::audit::as_reason(&reason)),
    }
}

#[cfg(test)]
mod tests {
    use tenure::{Guard, Mode, Options, Owner, SessionOptions};

    use super::*;

    /// Returns a request, and the guard of the lease that it is made under.
    pub(super) async fn request_under_lease<'a>(
        keeper: &Keeper,
        source: PathBuf,
        publish_target: &'a PublishTarget,
    ) -> (Request<'a>, Guard) {
        let options = SessionOptions::new(Owner::parse("ana@desk").unwrap());
        let asker = options.asker();
        let session = keeper.session(options);
        let resource = "target".parse().unwrap();
        let waiting = Options::default();
        let acquired = session.acquire(&resource, Mode::Write, &waiting);
        let guard = acquired.await.unwrap();
        let id = publish_target.tmp().file_name().unwrap();
        let request = Request {
            source,
            id: id.to_str().unwrap().to_owned(),
            publish_target,
            op_type: "test".into(),
            fence: Fence {
                resource,
                token: guard.token(),
                lease: Some(guard.lease().lease),
            },
            asker,
            wait: Duration::ZERO,
        };
        (request, guard)
    }

    #[tokio::test]
    async fn a_program_may_not_publish_over_its_own_store_either() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (source, target) = (root.join("source"), root.join("target"));
        std::fs::create_dir(&source).unwrap();
        let database = target.join("store/locks.db");
        let url = format!("sqlite:{}", database.display());
        let keeper = Keeper::open(&url).await.unwrap();
        let publish_target = PublishTarget::new(&target, &new_id()).unwrap();
        let (request, _guard) = request_under_lease(&keeper, source, &publish_target).await;
        let refused = publish(&keeper, &request, &Progress::default()).await;
        assert!(matches!(refused, Err(Error::BadInput(_))), "{refused:?}");
        assert!(database.exists());
    }

    #[tokio::test]
    async fn a_cancelled_publish_does_not_wait_for_the_lock_of_a_target_that_it_recovers() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (source, target) = (root.join("source"), root.join("target"));
        std::fs::create_dir(&source).unwrap();
        std::fs::create_dir(root.join("store")).unwrap();
        let url = format!("sqlite:{}", root.join("store/locks.db").display());
        let keeper = Keeper::open(&url).await.unwrap();
        let (left, id) = (PublishTarget::new(&target, &new_id()).unwrap(), new_id());
        let (request, _guard) = request_under_lease(&keeper, source, &left).await;
        let records = keeper.records("publish").unwrap();
        let publisher = Publisher {
            records,
            request: &request,
        };
        // A publisher that is stopped between steps 5 and 7.
        publisher.begin().await.unwrap();
        let progress = Progress::default();
        let lock = left.lock(Duration::ZERO, request.asker.clone(), &progress.cancel);
        let _lock = lock.unwrap();
        let next = PublishTarget::new(&target, &id).unwrap();
        let request = Request {
            publish_target: &next,
            id,
            wait: Duration::from_secs(5),
            ..request
        };
        progress.cancel.cancel();
        let cancelled = publish(&keeper, &request, &progress).await;
        let is_cancelled = matches!(cancelled, Err(Error::Interrupted { .. }));
        assert!(is_cancelled, "{cancelled:?}");
    }
}
