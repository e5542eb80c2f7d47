//! The manifest: as JSON shows it, and as records.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenure::audit::Action;
use tenure::records::{Changes, Columns, Fence, Record, RecordKey, Seen};
use tenure::{Error, Owner, Result, Timestamp, clock};
use tenure_api::publish::{Manifest, ManifestState, PublishedFile};
use tenure_files::publish::PublishTarget;
use tenure_os::disk::Disk;
use tenure_os::{machine, random};

use super::{Request, note};

/// The approximate largest length of a part of the files, in bytes of JSON.
const PART_BYTES_MAX: usize = 700 * 1024;

/// Returns a new id: a UUID of version 7, so that ids are in the order of time.
pub fn new_id() -> String {
    let millis = clock::now().as_millis().cast_unsigned();
    let random: [u8; 10] = random::bytes();
    let tail = random
        .iter()
        .fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let bits = u128::from(millis & 0xffff_ffff_ffff) << 80 | tail;
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 7 << 76 | 2 << 62;
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Returns the time at which an id was made, or the beginning of all time for a text that is no
/// such id.
pub(crate) fn id_time(id: &str) -> Timestamp {
    let digits: String = id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(12)
        .collect();
    Timestamp::from_millis(i64::from_str_radix(&digits, 16).unwrap_or(0))
}

pub(super) fn pending(request: &Request<'_>) -> Result<Manifest> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::BadInput(format!("{} is not UTF-8", path.display())))
    };
    Ok(Manifest {
        id: request.id.clone(),
        op_type: request.op_type.clone(),
        target: text(request.publish_target.target())?,
        tmp: text(request.publish_target.tmp())?,
        state: ManifestState::Pending,
        files: Vec::new(),
        created_at: clock::now(),
        committed_at: None,
        author: request.asker.owner.clone(),
        token: request.fence.token,
        lease: request.fence.lease.clone(),
        resource: request.fence.resource.clone(),
        host: request.asker.host.clone(),
        machine: machine::id().to_owned(),
        boot: clock::boot_id()?.to_owned(),
        old: None,
        new: None,
        mode: None,
        parts: 0,
        bytes: 0,
    })
}

pub(super) fn of(record: &Record) -> Result<Manifest> {
    Manifest::deserialize(&record.body).map_err(|error| {
        Error::corrupt("records", format!("{} is no manifest: {error}", record.key))
    })
}

/// Returns the manifest of an id among the records that a change wrote.
pub(super) fn among(written: &[Record], id: &str) -> Result<Manifest> {
    let key = key("manifest", id)?;
    let found = written.iter().find(|record| record.key == key);
    of(found.ok_or_else(|| Error::Internal(format!("{key} was not written")))?)
}

/// Returns the target of the manifest.
pub(super) fn publish_target(manifest: &Manifest, disk: &Arc<dyn Disk>) -> PublishTarget {
    PublishTarget::on(
        PathBuf::from(&manifest.target),
        &manifest.id,
        Arc::clone(disk),
    )
}

/// Returns the permission bits of the new directory, if they were written.
pub(super) fn mode_bits(manifest: &Manifest) -> Option<u32> {
    u32::from_str_radix(manifest.mode.as_deref()?, 8).ok()
}

/// Returns true if tmp had a directory to remove: the old one, or a new one that was never put in
/// place.
pub(super) fn leaves_a_directory(manifest: &Manifest) -> bool {
    match manifest.state {
        ManifestState::Committed => manifest.old.is_some(),
        ManifestState::Pending | ManifestState::Aborted => manifest.new.is_some(),
    }
}

/// Returns true if the manifest was made on this machine: only then can its directories be judged.
pub(super) fn is_of_this_machine(manifest: &Manifest) -> bool {
    manifest.machine == machine::id()
}

/// Returns true if the device numbers in the manifest still count.
pub(super) fn is_of_this_boot(manifest: &Manifest) -> bool {
    clock::boot_id().is_ok_and(|boot| boot == manifest.boot)
}

/// Returns the records that every change of the manifest names.
pub(super) fn keys(manifest: &Manifest) -> Result<[RecordKey; 3]> {
    Ok([
        key("manifest", &manifest.id)?,
        target_key(&manifest.machine, &manifest.target)?,
        key("leftover", &manifest.id)?,
    ])
}

pub(super) fn put(manifest: &Manifest, changes: &mut Changes) -> Result<()> {
    let columns = Columns {
        state: Some(manifest.state.to_string()),
        owner: Some(manifest.author.to_string()),
        subject: Some(manifest.target.clone()),
    };
    let mut body =
        serde_json::to_value(manifest).map_err(|error| Error::Internal(error.to_string()))?;
    if let Some(body) = body.as_object_mut() {
        body.remove("files");
    }
    changes.put(key("manifest", &manifest.id)?, columns, body);
    Ok(())
}

/// Records that tmp may be there from now on.
pub(super) fn put_leftover(manifest: &Manifest, changes: &mut Changes) -> Result<()> {
    let columns = Columns {
        subject: Some(manifest.machine.clone()),
        ..Columns::default()
    };
    changes.put(
        key("leftover", &manifest.id)?,
        columns,
        json!({ "tmp": manifest.tmp }),
    );
    Ok(())
}

/// Fails unless the manifest is still the pending one: recovery may have ended it.
pub(super) fn require_pending(manifest: &Manifest, seen: &Seen) -> Result<()> {
    let now = seen
        .get(&key("manifest", &manifest.id)?)
        .map(of)
        .transpose()?;
    match now.map(|now| now.state) {
        Some(ManifestState::Pending) => Ok(()),
        state => Err(Error::not_allowed(
            format!(
                "another publisher took over, and ended manifest {}: it is {}",
                manifest.id,
                state.map_or_else(|| "gone".into(), |state| state.to_string())
            ),
            "look at what is there with: {publish.history target=TARGET}",
        )),
    }
}

/// Returns the target's record as it is now.
pub(super) fn target_after(manifest: &Manifest, seen: &Seen) -> Result<Target> {
    Target::seen(seen.get(&target_key(&manifest.machine, &manifest.target)?))
}

/// Returns the change that ends the manifest.
pub(super) fn end(
    manifest: &Manifest,
    seen: &Seen,
    state: ManifestState,
    actor: &Owner,
    fence: &Fence,
    reason: &str,
) -> Result<Changes> {
    let mut changes = Changes::default();
    let mut ended = manifest.clone();
    let mut target = target_after(manifest, seen)?;
    target.pending.retain(|pending| *pending != manifest.id);
    ended.state = state;
    let action = match state {
        ManifestState::Committed => {
            ended.committed_at = Some(seen.now);
            target.committed = Some(manifest.id.clone());
            Action::Publish
        }
        ManifestState::Pending | ManifestState::Aborted => Action::Abort,
    };
    target.put(&mut changes, manifest)?;
    put(&ended, &mut changes)?;
    let reason = format!("{reason}; manifest {}", manifest.id);
    changes.note(note(action, manifest, actor, Some(fence), reason));
    Ok(changes)
}

/// The manifests of a target on one machine.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Target {
    /// The manifest of the directory in place.
    pub(super) committed: Option<String>,
    /// The manifests whose outcome is not known yet.
    pub(super) pending: Vec<String>,
}

impl Target {
    pub(super) fn seen(record: Option<&Record>) -> Result<Self> {
        let Some(record) = record else {
            return Ok(Self::default());
        };
        Self::deserialize(&record.body).map_err(|error| {
            Error::corrupt("records", format!("{} is no target: {error}", record.key))
        })
    }

    pub(super) fn with_pending(mut self, id: &str) -> Self {
        self.pending.push(id.to_owned());
        self
    }

    pub(super) fn put(&self, changes: &mut Changes, manifest: &Manifest) -> Result<()> {
        let body =
            serde_json::to_value(self).map_err(|error| Error::Internal(error.to_string()))?;
        let key = target_key(&manifest.machine, &manifest.target)?;
        changes.put(key, Columns::default(), body);
        Ok(())
    }
}

pub(super) fn key(kind: &str, id: &str) -> Result<RecordKey> {
    RecordKey::new(kind, id)
}

pub(super) fn target_key(machine: &str, target: &str) -> Result<RecordKey> {
    key("target", &format!("{machine}:{target}"))
}

/// Returns the records that keep the files.
pub(super) fn parts(id: &str, files: &[PublishedFile]) -> Result<Vec<(RecordKey, Columns, Value)>> {
    let mut parts: Vec<Vec<Value>> = vec![Vec::new()];
    let mut length = 0;
    for file in files {
        let file =
            serde_json::to_value(file).map_err(|error| Error::Internal(error.to_string()))?;
        let more = file.to_string().len() + 1;
        if length + more > PART_BYTES_MAX {
            parts.push(Vec::new());
            length = 0;
        }
        length += more;
        parts.last_mut().expect("there is one").push(file);
    }
    let part = |(number, files): (usize, Vec<Value>)| {
        let columns = Columns {
            subject: Some(id.to_owned()),
            ..Columns::default()
        };
        let key = key("manifest_files", &format!("{id}/{number:04}"))?;
        Ok((key, columns, json!({ "files": files })))
    };
    parts.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_in_the_order_of_time() {
        let (one, other) = (new_id(), new_id());
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'7'));
        assert!(
            matches!(one.as_bytes()[19], b'8' | b'9' | b'a' | b'b'),
            "{one}"
        );
        assert!(one[..8] <= other[..8] && one != other);
    }

    #[test]
    fn a_hundred_thousand_files_fit_into_records() {
        let file = |number: usize| {
            let relative_path = format!("{}/{number}", "d".repeat(60));
            serde_json::from_value(
                json!({ "relative_path": relative_path, "sha256": "0".repeat(64), "mode": "644" }),
            )
        };
        let files: Vec<PublishedFile> = (0..100_000).map(|number| file(number).unwrap()).collect();
        let parts = parts("id", &files).unwrap();
        assert!(
            parts
                .iter()
                .all(|(_, _, body)| body.to_string().len() < tenure::records::BODY_BYTES_MAX)
        );
        let count: usize = parts
            .iter()
            .map(|(_, _, body)| body["files"].as_array().unwrap().len())
            .sum();
        assert_eq!(count, 100_000);
    }
}
