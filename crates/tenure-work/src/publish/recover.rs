//! Recovery: a publish that crashed is finished or given up, and leftovers are removed.
//!
//! # Protocol
//!
//! 1. The lease on the resource of the manifest is held, so its publisher is dead, or was
//!    overtaken. The resource may differ from that of the publish that recovers it.
//! 2. The lock beside the target is taken, so no publisher that was overtaken is between steps 5
//!    and 7.
//! 3. The manifest is read again. Before 1 its publisher may have gone on, and ended it: then
//!    nothing is touched, as the directory in tmp is being removed by now.
//! 4. The inodes tell which directory is in place
//!    ([`PublishTarget::judge`](tenure_files::publish::PublishTarget::judge)). An exchange with
//!    anything but the directory that was to be replaced is undone.
//! 5. The manifest is committed or aborted, under the lease of 1, with an entry in the audit.
//!
//! A crash after any of these leaves a pending manifest, which is judged again. After 5 nothing is
//! left to do but to remove tmp, which has a record of its own.

use super::error::PublishError;
use std::sync::Arc;
use std::time::Duration;

use tenure::audit::Action;
use tenure::leases::Recovery;
use tenure::records::{Changes, Column, Fence, RecordChange, RecordQuery, Records, Seen};
use tenure::store::Asker;
use tenure::{
    Error, Keeper, LockContext, Mode, Options, Owner, Remedy, Result, SessionOptions, clock,
};
use tenure_files::publish::{CrashOutcome, Inode};
use tenure_os::blocking::blocking;
use tenure_os::cancel::Cancel;
use tenure_os::disk::{Disk, RealDisk};
use tenure_os::machine;

use super::look::files_of;
use super::manifest::{self, Target, key, target_key};
use super::{Manifest, ManifestState, Outcome, Publisher, Recovered, Removed, note};
use crate::all_records::all_records;

/// The time after which leftovers are removed.
const LEFT_FOR: Duration = Duration::from_secs(60 * 60);

/// The wait for the lock of a target. By default there is none.
#[derive(Default)]
struct LockWait {
    limit: Duration,
    cancel: Cancel,
}

/// Ends the pending manifests of the target of a publish, each under the lease on its own resource.
///
/// # Errors
///
/// `UnderWay` if another session holds the resource of one of them, which is not the resource of
/// this publish; `Interrupted` if the wait for the lock of the target is cancelled.
pub(super) async fn pending_of(
    keeper: &Keeper,
    publisher: &Publisher<'_>,
    cancel: &Cancel,
) -> Result<()> {
    let (records, request) = (&publisher.records, publisher.request);
    let disk = request.publish_target.disk();
    let target = request.publish_target.target().to_string_lossy();
    let waiting = LockWait {
        limit: request.wait,
        cancel: cancel.clone(),
    };
    let record = records.read(&target_key(machine::id(), &target)?).await?;
    for id in Target::seen(record.as_ref())?.pending {
        let Some(manifest) = records.read(&key("manifest", &id)?).await? else {
            continue;
        };
        let manifest = manifest::of(&manifest)?;
        let (fence, asker) = (&request.fence, &request.asker);
        if manifest.resource == fence.resource {
            end_pending(records, &manifest, fence, asker, &waiting, disk).await?;
            continue;
        }
        // The manifest is under the lease of another resource, so it may still be under way,
        // whatever lease this publish holds.
        let ended =
            end_pending_if_free(keeper, records, &manifest, &asker.owner, &waiting, disk).await?;
        if ended.is_none() {
            let location = format!("manifest {} of {}", manifest.id, manifest.target);
            let store = keeper.url();
            let context = LockContext::new(manifest.resource, Mode::Write, store, location);
            let context = Box::new(context);
            return Err(PublishError::UnderWay { context }.into());
        }
    }
    Ok(())
}

/// Steps 2 to 5. The caller holds the lease. Returns the manifest as it is afterwards.
async fn end_pending(
    records: &Records<'_>,
    manifest: &Manifest,
    fence: &Fence,
    asker: &Asker,
    waiting: &LockWait,
    disk: &Arc<dyn Disk>,
) -> Result<Manifest> {
    let publish_target = manifest::publish_target(manifest, disk);
    let lock = blocking(|| publish_target.lock(waiting.limit, asker.clone(), &waiting.cancel))?;
    let record = records.read(&key("manifest", &manifest.id)?).await?;
    let manifest = match record.as_ref().map(manifest::of).transpose()? {
        Some(manifest) if manifest.state == ManifestState::Pending => manifest,
        Some(ended) => return Ok(ended),
        None => return Err(Error::NotFound(format!("manifest {}", manifest.id))),
    };
    let same_boot = manifest::is_of_this_boot(&manifest);
    let outcome = blocking(|| {
        let outcome =
            publish_target.judge(manifest.old.as_ref(), manifest.new.as_ref(), same_boot)?;
        match outcome {
            CrashOutcome::Aborted => {}
            CrashOutcome::Finished => publish_target.finish(manifest::mode_bits(&manifest))?,
            CrashOutcome::ExchangeBack => {
                lock.check()?;
                publish_target.exchange_back()?;
            }
        }
        Ok::<_, Error>(outcome)
    })?;
    let (state, reason) = match outcome {
        CrashOutcome::Finished => (
            ManifestState::Committed,
            "recovered: the new directory is in place",
        ),
        CrashOutcome::Aborted => (
            ManifestState::Aborted,
            "recovered: the new directory is not in place",
        ),
        CrashOutcome::ExchangeBack => (
            ManifestState::Aborted,
            "recovered: exchanged back what somebody else had put there",
        ),
    };
    let end = |seen: &Seen| {
        manifest::require_pending(&manifest, seen)?;
        manifest::end(&manifest, seen, state, &asker.owner, fence, reason)
    };
    let change = RecordChange::new(manifest::keys(&manifest)?, &end).under(fence.clone());
    manifest::among(&records.change(&change).await?, &manifest.id)
}

/// All steps: ends a pending manifest under a lease of its own. Returns `None` if another session
/// holds its resource.
async fn end_pending_if_free(
    keeper: &Keeper,
    records: &Records<'_>,
    manifest: &Manifest,
    actor: &Owner,
    waiting: &LockWait,
    disk: &Arc<dyn Disk>,
) -> Result<Option<Manifest>> {
    let options = SessionOptions::new(actor.clone());
    let asker = options.asker();
    let session = keeper.session(options);
    let options = Options::default().with_purpose(format!("recover manifest {}", manifest.id));
    let guard = session
        .try_acquire(&manifest.resource, Mode::Write, &options)
        .await?;
    let Some(guard) = guard else {
        return Ok(None);
    };
    let lease = guard.lease();
    let fence = Fence {
        resource: lease.resource,
        token: lease.token,
        lease: Some(lease.lease),
    };
    let ended = end_pending(records, manifest, &fence, &asker, waiting, disk).await;
    drop(guard.release().await);
    ended.map(Some)
}

/// Judges every pending manifest of this machine, and removes leftovers that are an hour old.
///
/// # Errors
///
/// Errors of the store. A manifest that cannot be judged now is kept, with the reason.
pub async fn recover(
    keeper: &Keeper,
    actor: &Owner,
    recovery: Recovery,
) -> Result<(Vec<Recovered>, Vec<Removed>)> {
    let records = keeper.records("recover")?;
    let mut recovered = Vec::new();
    let query = RecordQuery::new("manifest").with_column(Column::State("pending".into()));
    for record in all_records(&records, query).await? {
        let manifest = manifest::of(&record)?;
        recovered.push(recover_one(keeper, &records, manifest, actor, recovery).await?);
    }
    let removed = remove_leftovers(&records, actor, recovery).await?;
    Ok((recovered, removed))
}

/// Ends a pending manifest, if its resource is not held.
async fn recover_one(
    keeper: &Keeper,
    records: &Records<'_>,
    manifest: Manifest,
    actor: &Owner,
    recovery: Recovery,
) -> Result<Recovered> {
    let kept = |manifest: Manifest, reason: Remedy| Recovered {
        manifest,
        outcome: Outcome::Kept,
        reason,
    };
    if !manifest::is_of_this_machine(&manifest) {
        let reason = Remedy::of("it was begun on {}: run {recover} there", &[&manifest.host]);
        return Ok(kept(manifest, reason));
    }
    if recovery == Recovery::DryRun {
        let reason = "it can be judged once its resource is free".into();
        return Ok(kept(manifest, reason));
    }
    match end_pending_if_free(
        keeper,
        records,
        &manifest,
        actor,
        &LockWait::default(),
        &real_disk(),
    )
    .await
    {
        Ok(Some(ended)) => Ok(Recovered {
            outcome: match ended.state {
                ManifestState::Committed => Outcome::Committed,
                ManifestState::Pending | ManifestState::Aborted => Outcome::Aborted,
            },
            reason: "its resource was free: its publisher is gone".into(),
            manifest: Manifest {
                files: files_of(records, &ended).await?,
                ..ended
            },
        }),
        Ok(None) => {
            let reason = format!("{} is held: it may be under way", manifest.resource);
            Ok(kept(manifest, reason.into()))
        }
        Err(error) => Ok(kept(manifest, error.to_string().into())),
    }
}

async fn remove_leftovers(
    records: &Records<'_>,
    actor: &Owner,
    recovery: Recovery,
) -> Result<Vec<Removed>> {
    let mut removed = Vec::new();
    let query = RecordQuery::new("leftover");
    let query = query.with_column(Column::Subject(machine::id().to_owned()));
    for record in all_records(records, query).await? {
        let id = record.key.id();
        let Some(manifest) = records.read(&key("manifest", id)?).await? else {
            continue;
        };
        let (ended, manifest) = (manifest.changed_at, manifest::of(&manifest)?);
        let young = clock::now().since(ended) < LEFT_FOR;
        if young || manifest.state == ManifestState::Pending {
            continue;
        }
        let (removed_now, reason) = match recovery {
            Recovery::DryRun => (false, "it can be removed".into()),
            Recovery::Real => match remove(records, &manifest, actor, &real_disk()).await {
                Ok(true) => (true, "its publish is over".into()),
                Ok(false) => (
                    false,
                    "it is not the directory that the manifest names".into(),
                ),
                Err(error) => (false, error.to_string()),
            },
        };
        removed.push(Removed {
            manifest: id.to_owned(),
            tmp: manifest.tmp,
            removed: removed_now,
            reason,
        });
    }
    Ok(removed)
}

fn real_disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Removes the old directory, which a publish of this process left in tmp. The caller has released
/// the lease before.
pub async fn remove_leftover(keeper: &Keeper, manifest: &Manifest, actor: &Owner) -> Result<bool> {
    let records = keeper.records("publish")?;
    remove(&records, manifest, actor, &real_disk()).await
}

/// Removes the directory that a manifest left in tmp, and the record of it. The audit records the
/// removal even if the directory is gone already: a process that died between the two steps has
/// removed it.
pub(super) async fn remove(
    records: &Records<'_>,
    manifest: &Manifest,
    actor: &Owner,
    disk: &Arc<dyn Disk>,
) -> Result<bool> {
    let named: Vec<&Inode> = manifest.old.iter().chain(&manifest.new).collect();
    let publish_target = manifest::publish_target(manifest, disk);
    let was_there = blocking(|| publish_target.inode_of_tmp())?.is_some();
    if !blocking(|| publish_target.remove_tmp(&named, manifest::is_of_this_boot(manifest)))? {
        return Ok(false);
    }
    let leftover = key("leftover", &manifest.id)?;
    let forget = |seen: &Seen| {
        let mut changes = Changes::default();
        // Two processes that remove it at once record that once.
        if seen.get(&leftover).is_none() {
            return Ok(changes);
        }
        changes.delete(leftover.clone());
        if was_there || manifest::leaves_a_directory(manifest) {
            let reason = format!("removed {}; manifest {}", manifest.tmp, manifest.id);
            changes.note(note(Action::Remove, manifest, actor, None, reason));
        }
        Ok(changes)
    };
    records
        .change(&RecordChange::new([leftover.clone()], &forget))
        .await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tenure_files::publish::PublishTarget;

    use super::*;
    use crate::publish::tests::request_under_lease;
    use crate::publish::{Progress, new_id, publish};

    #[tokio::test]
    async fn a_manifest_that_its_publisher_ended_after_it_was_read_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (source, target) = (root.join("source"), root.join("target"));
        for directory in [&source, &target] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(source.join("new.txt"), "new").unwrap();
        let url = format!("sqlite:{}", root.join("store/locks.db").display());
        let keeper = Keeper::open(&url).await.unwrap();
        let publish_target = PublishTarget::new(&target, &new_id()).unwrap();
        let (request, _guard) = request_under_lease(&keeper, source, &publish_target).await;
        let progress = Progress::default();
        let published = publish(&keeper, &request, &progress).await.unwrap();
        assert!(target.join("new.txt").exists());
        // The old directory is still in tmp. The manifest does not know it, as it was read at step
        // 2.
        let read = Manifest {
            state: ManifestState::Pending,
            old: None,
            ..published
        };
        let records = keeper.records("recover").unwrap();
        let (fence, asker, disk) = (&request.fence, &request.asker, real_disk());
        let ended = end_pending(&records, &read, fence, asker, &LockWait::default(), &disk).await;
        assert_eq!(ended.unwrap().state, ManifestState::Committed);
        assert!(target.join("new.txt").exists());
    }
}
