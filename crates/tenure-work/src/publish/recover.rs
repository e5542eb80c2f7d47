//! Recovery: what a crash left is finished or given up, and what is left over is removed.
//!
//! # Protocol
//!
//! 1. The lease on the resource of the manifest is held: the publisher is dead, or was overtaken.
//! 2. The lock beside the target is taken: no publisher that was overtaken is between steps 5 and 7.
//! 3. The inodes tell what is in place ([`PublishTarget::judge`](tenure_files::publish::PublishTarget::judge)). An exchange with something that was never published over is
//!    undone.
//! 4. The manifest is committed or aborted, under the lease of 1, with an entry in the audit.
//!
//! A crash after any of these leaves a pending manifest, which is judged again. After 4 nothing is left to do but to remove tmp, which has
//! a record of its own.

use std::time::Duration;

use serde::Serialize;
use tenure::records::{Changes, Column, Fence, RecordChange, RecordQuery, Records, Seen};
use tenure::{
    Action, Asker, Error, Keeper, Mode, Options, Owner, Recovery, Result, SessionOptions, clock,
};
use tenure_files::machine;
use tenure_files::publish::{CrashOutcome, Inode};

use super::manifest::{Target, key, target_key};
use super::{Manifest, ManifestState, Publisher, in_place, note};

/// Leftovers are removed after this time.
const LEFT_FOR: Duration = Duration::from_secs(60 * 60);

/// The outcome of a pending manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its directory is in place.
    Committed,
    /// The directory from before stayed, or was put back.
    Aborted,
    /// It is under way, or nothing can be told of it here.
    Kept,
}

/// A pending manifest that was looked at.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Recovered {
    /// The manifest, without its files.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, in words.
    pub reason: String,
}

/// A directory that a publish left behind.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Removed {
    /// The manifest that names it.
    pub manifest: String,
    /// The directory.
    pub tmp: String,
    /// True if it was removed.
    pub removed: bool,
}

/// Ends the pending manifests of the target of a publish, under its lease.
pub(super) async fn pending_of(publisher: &Publisher<'_>) -> Result<()> {
    let (records, request) = (&publisher.records, publisher.request);
    let target = request.publish_target.target().to_string_lossy();
    let record = records.read(&target_key(machine::id(), &target)?).await?;
    for id in Target::seen(record.as_ref())?.pending {
        let Some(manifest) = records.read(&key("manifest", &id)?).await? else {
            continue;
        };
        let manifest = Manifest::of(&manifest)?;
        settle(
            records,
            &manifest,
            &request.fence,
            &request.asker,
            request.wait,
        )
        .await?;
    }
    Ok(())
}

/// Steps 2 to 4. The caller holds the lease.
async fn settle(
    records: &Records<'_>,
    manifest: &Manifest,
    fence: &Fence,
    asker: &Asker,
    wait: Duration,
) -> Result<Outcome> {
    let (publish_target, same_boot) = (manifest.publish_target(), manifest.is_of_this_boot());
    let lock = in_place(|| publish_target.lock(wait, asker.clone()))?;
    let outcome = in_place(|| {
        let outcome =
            publish_target.judge(manifest.old.as_ref(), manifest.new.as_ref(), same_boot)?;
        match outcome {
            CrashOutcome::Aborted => {}
            CrashOutcome::Finished => publish_target.finish()?,
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
        manifest.require_pending(seen)?;
        manifest.end(seen, state, &asker.owner, fence, reason)
    };
    let change = RecordChange::new(manifest.keys()?, &end).under(fence.clone());
    records.change(&change).await?;
    Ok(match state {
        ManifestState::Committed => Outcome::Committed,
        ManifestState::Pending | ManifestState::Aborted => Outcome::Aborted,
    })
}

/// Judges every pending manifest of this machine, and removes what is left over for an hour.
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
    let mut query = RecordQuery::new("manifest").with_column(Column::State("pending".into()));
    loop {
        let page = records.list(&query).await?;
        for record in &page.records {
            let manifest = Manifest::of(record)?;
            let (outcome, reason) = recover_one(keeper, &records, &manifest, actor, recovery).await;
            recovered.push(Recovered {
                manifest,
                outcome,
                reason,
            });
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let removed = remove_leftovers(&records, actor, recovery).await?;
    Ok((recovered, removed))
}

/// Takes the lease of a manifest, if nobody has it, and settles it.
async fn recover_one(
    keeper: &Keeper,
    records: &Records<'_>,
    manifest: &Manifest,
    actor: &Owner,
    recovery: Recovery,
) -> (Outcome, String) {
    let kept = |reason: String| (Outcome::Kept, reason);
    if !manifest.is_of_this_machine() {
        return kept(format!(
            "it was begun on {}: run tenure recover there",
            manifest.host
        ));
    }
    if recovery == Recovery::DryRun {
        return kept("it can be judged once its resource is free".into());
    }
    let taken = async {
        let options = SessionOptions::new(actor.clone());
        let asker = options.asker();
        let session = keeper.session(options).await?;
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
        let outcome = settle(records, manifest, &fence, &asker, Duration::ZERO).await;
        drop(guard.release().await);
        outcome.map(Some)
    };
    match taken.await {
        Ok(Some(outcome)) => (
            outcome,
            "its resource was free: its publisher is gone".into(),
        ),
        Ok(None) => kept(format!(
            "{} is held: it may be under way",
            manifest.resource
        )),
        Err(error) => kept(error.to_string()),
    }
}

async fn remove_leftovers(
    records: &Records<'_>,
    actor: &Owner,
    recovery: Recovery,
) -> Result<Vec<Removed>> {
    let mut removed = Vec::new();
    let mut query =
        RecordQuery::new("leftover").with_column(Column::Subject(machine::id().to_owned()));
    loop {
        let page = records.list(&query).await?;
        for record in &page.records {
            let id = record.key.id();
            let Some(manifest) = records.read(&key("manifest", id)?).await? else {
                continue;
            };
            let (ended, manifest) = (manifest.changed_at, Manifest::of(&manifest)?);
            let young = clock::now().since(ended) < LEFT_FOR;
            if young || manifest.state == ManifestState::Pending {
                continue;
            }
            let gone = match recovery {
                Recovery::DryRun => false,
                Recovery::Real => remove(records, &manifest, actor).await?,
            };
            removed.push(Removed {
                manifest: id.to_owned(),
                tmp: manifest.tmp,
                removed: gone,
            });
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(removed);
        }
    }
}

/// Removes what a publish of this process left in tmp: the directory that was there before. Called after the lease was released.
pub async fn remove_leftover(keeper: &Keeper, manifest: &Manifest, actor: &Owner) -> Result<bool> {
    remove(&keeper.records("publish")?, manifest, actor).await
}

async fn remove(records: &Records<'_>, manifest: &Manifest, actor: &Owner) -> Result<bool> {
    let named: Vec<&Inode> = manifest.old.iter().chain(&manifest.new).collect();
    let publish_target = manifest.publish_target();
    let was_there = in_place(|| publish_target.inode_of_tmp())?.is_some();
    if !in_place(|| publish_target.remove_tmp(&named, manifest.is_of_this_boot()))? {
        return Ok(false);
    }
    let leftover = key("leftover", &manifest.id)?;
    let forget = |_: &Seen| {
        let mut changes = Changes::default();
        changes.delete(leftover.clone());
        if was_there {
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

/// Forgets that tmp was there.
pub(super) async fn forget_leftover(records: &Records<'_>, id: &str) -> Result<()> {
    let leftover = key("leftover", id)?;
    let forget = |_: &Seen| {
        let mut changes = Changes::default();
        changes.delete(leftover.clone());
        Ok(changes)
    };
    records
        .change(&RecordChange::new([leftover.clone()], &forget))
        .await
        .map(drop)
}
