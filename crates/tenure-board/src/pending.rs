//! The record of one change: all that is needed to finish the change, or to make it again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};
use tenure_api::board::GateBy;
use tenure_core::{Error, Result};
use tenure_files::document::Version;
use tenure_os::random;
use tenure_os::replace::target_of_temporary;

use super::Board;
use super::issue::IssueId;
use super::names::{Part, uuid_of};

/// The largest record, in bytes. It has room for an issue and an index of a million ids.
const PENDING_BYTES_MAX: u64 = 256 << 20;
/// The mode of the files in `.pending` that are only there or not.
pub(super) const MODE_OF_MARKER: u32 = 0o600;

/// The content of `.pending/UUID.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The name of its file, and the id of its event.
    #[serde(skip)]
    pub(super) uuid: String,
    /// The boot in which the change was made.
    pub(super) boot_id: String,
    /// The end of the last whole line of the log: the change's own line is not before that.
    pub(super) log_length: u64,
    /// The change's line in the log, without the newline.
    pub(super) line: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) issue: Option<IssueImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gates: Option<GatesImage>,
}

/// The content of a file before and after the change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Image {
    /// The hash of the content before; `None` if there was no file.
    pub(super) before: Option<String>,
    /// The content after; `None` if there is no file then.
    pub(super) after: Option<String>,
}

/// An issue before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct IssueImage {
    pub(super) id: IssueId,
    /// The version of the issue after the change.
    pub(super) version: u64,
    #[serde(flatten)]
    pub(super) image: Image,
}

/// The gates before and after, and the one that was defined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct GatesImage {
    pub(super) name: String,
    pub(super) by: GateBy,
    #[serde(flatten)]
    pub(super) image: Image,
}

impl Image {
    /// Returns the change of a file from its bytes to a text.
    pub(super) fn new(before: Option<&[u8]>, after: Option<String>) -> Self {
        let before = before.map(hash);
        Self { before, after }
    }
}

/// Returns the hash that tells one content from another.
pub(super) fn hash(bytes: &[u8]) -> String {
    Version::of(bytes).to_string()
}

impl Pending {
    /// Returns the parts that the change is about, in the order of locks.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.images().into_iter().map(|(part, _)| part).collect()
    }

    /// Returns the parts that the change is about, each with its content before and after.
    pub(super) fn images(&self) -> Vec<(Part, &Image)> {
        let index = self.index.as_ref().map(|image| (Part::Index, image));
        let gates = self.gates.as_ref();
        let gates = gates.map(|gates| (Part::Gates, &gates.image));
        let issue = self.issue.as_ref();
        let issue = issue.map(|issue| (Part::Issue(issue.id.clone()), &issue.image));
        [index, gates, issue].into_iter().flatten().collect()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers are serialisable")
    }
}

/// Returns a new id for a change and its event, a UUID of random bits.
pub(super) fn new_uuid() -> String {
    let mut bytes = random::bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The names of the files in `.pending`.
#[derive(Default)]
pub(super) struct PendingNames {
    /// The ids of the changes.
    pub(super) changes: BTreeSet<String>,
    /// The ids of the marks of finished changes. The change of a mark may be gone.
    pub(super) finished: BTreeSet<String>,
    /// Records that are being written, or that their authors left when they were killed.
    pub(super) temporaries: Vec<PathBuf>,
}

impl Board {
    pub(super) fn pending_names(&self) -> Result<PendingNames> {
        let directory = self.names.all_pending();
        let names = self.names_in(&directory)?;
        let ending_in = |ending| {
            let uuids = names.iter().filter_map(move |name| uuid_of(name, ending));
            uuids.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let is_temporary = |name: &&OsString| target_of_temporary(name).is_some();
        let temporaries = names.iter().filter(is_temporary);
        let found = PendingNames {
            changes: ending_in(".json"),
            finished: ending_in(".done"),
            temporaries: temporaries.map(|name| directory.join(name)).collect(),
        };
        self.pending_seen.store(found.changes.len(), Relaxed);
        Ok(found)
    }

    /// Reads pending changes, oldest first. Changes that are gone by now are left out.
    pub(super) fn read_all_pending<'a>(
        &self,
        uuids: impl IntoIterator<Item = &'a String>,
    ) -> Result<Vec<Pending>> {
        let mut changes = Vec::new();
        for uuid in uuids {
            changes.extend(self.read_pending(uuid)?);
        }
        changes.sort_by_key(|change| {
            let version = change.issue.as_ref().map_or(0, |issue| issue.version);
            (change.log_length, version)
        });
        Ok(changes)
    }

    /// Marks a change as finished, so that no process makes it again before a power loss. If that
    /// fails, the next process finishes it again, which changes nothing.
    pub(super) fn mark_finished(&self, change: &Pending) {
        let _ = self
            .disk
            .create(&self.names.finished(&change.uuid), MODE_OF_MARKER);
    }

    /// Reads a pending change. Returns `None` if it is gone by now.
    pub(super) fn read_pending(&self, uuid: &str) -> Result<Option<Pending>> {
        let path = self.names.pending(uuid);
        let bytes = self.disk.content(&path, PENDING_BYTES_MAX);
        let Some(bytes) = bytes.map_err(|source| Error::io("read", &path, source))? else {
            return Ok(None);
        };
        match serde_json::from_slice::<Pending>(&bytes) {
            Ok(pending) => Ok(Some(Pending {
                uuid: uuid.to_owned(),
                ..pending
            })),
            Err(error) if error.is_eof() || bytes.contains(&0) => {
                // The power went before the record was synced, so the change was not acknowledged.
                // A live author names its record only when it is whole.
                let _ = self.disk.remove(&path);
                Ok(None)
            }
            Err(error) => Err(Error::corrupt(
                path,
                format!("it is no pending change: {error}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_has_an_id_of_its_own_that_names_its_file() {
        let uuids: std::collections::HashSet<_> = (0..1000).map(|_| new_uuid()).collect();
        assert_eq!(uuids.len(), 1000);
        for uuid in uuids {
            let name = format!("{uuid}.json");
            let name = std::ffi::OsStr::new(&name);
            assert_eq!(uuid_of(name, ".json"), Some(uuid.as_str()));
        }
    }
}
