//! Files put right: their content from before a change becomes the content after it.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Result};
use tenure_os::replace::replace_unsynced;

use super::Board;
use super::issue::Issue;
use super::names::Part;
use super::pending::{Image, Pending, hash};
use super::read::Loaded;
use super::registry::{self, Gates, Index};

/// The possibility that the present content of a file is torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Torn {
    /// The power may have been gone since the changes were made.
    Perhaps,
    /// The power was not gone: the present content was put there whole.
    No,
}

impl Board {
    /// Puts right the files that the changes are about; the changes are in their order. `is_ours`
    /// tells if the lock of a part is held.
    pub(super) fn apply_changes(
        &self,
        changes: &[&Pending],
        is_ours: impl Fn(&Part) -> bool,
        torn: Torn,
    ) -> Result<()> {
        let ours = changes.iter().flat_map(|change| change.parts());
        self.remove_left_files(&ours.filter(&is_ours).collect());
        if is_ours(&Part::Index) {
            let images: Vec<&Image> = changes.iter().filter_map(|c| c.index.as_ref()).collect();
            let listed = changes.iter().filter(|change| change.index.is_some());
            let list = |index: &mut Index| {
                for issue in listed.filter_map(|change| change.issue.as_ref()) {
                    match issue.image.after {
                        Some(_) => index.add(&issue.id),
                        None => index.delete(&issue.id),
                    }
                }
            };
            self.put_registry_right(&self.names.index(), &images, torn, Self::load_index, list)?;
        }
        if is_ours(&Part::Gates) {
            let defined: Vec<_> = changes.iter().filter_map(|c| c.gates.as_ref()).collect();
            let images: Vec<&Image> = defined.iter().map(|gates| &gates.image).collect();
            let define = |gates: &mut Gates| {
                defined
                    .iter()
                    .for_each(|gate| gates.put(&gate.name, gate.by));
            };
            self.put_registry_right(&self.names.gates(), &images, torn, Self::load_gates, define)?;
        }
        let mut ids: Vec<_> = changes
            .iter()
            .filter_map(|change| change.issue.as_ref())
            .collect();
        ids.sort_by_key(|issue| (&issue.id, issue.version));
        for issues in ids.chunk_by(|one, other| one.id == other.id) {
            let id = &issues[0].id;
            if !is_ours(&Part::Issue(id.clone())) {
                continue;
            }
            // After a power loss, some of the changes of a deleted issue may come back.
            if torn == Torn::Perhaps && self.load_index()?.value.is_deleted(id) {
                self.remove_file(&self.names.issue(id))?;
                continue;
            }
            let images: Vec<&Image> = issues.iter().map(|issue| &issue.image).collect();
            let newest = issues.last().map_or(0, |issue| issue.version);
            let is_newer =
                |bytes: &[u8]| Issue::parse(id, bytes).is_ok_and(|issue| issue.version >= newest);
            self.put_file_right(&self.names.issue(id), &images, is_newer, torn)?;
        }
        Ok(())
    }

    /// Puts the index or the gates right, and then makes the changes that are missing in them.
    fn put_registry_right<T: DeserializeOwned + Serialize + Clone + PartialEq>(
        &self,
        path: &Path,
        images: &[&Image],
        torn: Torn,
        load: impl FnOnce(&Self) -> Result<Loaded<T>>,
        change: impl FnOnce(&mut T),
    ) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        let is_whole = |bytes: &[u8]| registry::parse::<T>(bytes).is_ok();
        self.put_file_right(path, images, is_whole, torn)?;
        let before = load(self)?;
        let mut after = before.value.clone();
        change(&mut after);
        if after == before.value {
            return Ok(());
        }
        let like = before.found.map(|found| found.attributes);
        let text = registry::encode(&after);
        replace_unsynced(&*self.disk, path, text.as_bytes(), like.as_ref())
    }

    /// Replaces content from before a change, or torn content, by the newest. Content that another
    /// program wrote stays.
    fn put_file_right(
        &self,
        path: &Path,
        images: &[&Image],
        is_newer: impl Fn(&[u8]) -> bool,
        torn: Torn,
    ) -> Result<()> {
        let (Some(first), Some(newest)) = (images.first(), images.last()) else {
            return Ok(());
        };
        let found = self.read_file(path)?;
        let is_behind = match &found {
            None => first.before.is_none(),
            Some(found) if is_newer(&found.bytes) => false,
            Some(found) => {
                let now = Some(hash(&found.bytes));
                let is_before = images.iter().any(|image| image.before == now);
                is_before || torn == Torn::Perhaps && is_torn(images, &found.bytes)
            }
        };
        if !is_behind {
            return Ok(());
        }
        match &newest.after {
            Some(text) => {
                let like = found.map(|found| found.attributes);
                replace_unsynced(&*self.disk, path, text.as_bytes(), like.as_ref())
            }
            None => self.remove_file(path),
        }
    }

    /// Removes a file, if it is there.
    pub(super) fn remove_file(&self, path: &Path) -> Result<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| Error::io("remove", path, source)),
        }
    }
}

/// Returns true for content that a power loss may have made of a file that was not synced.
fn is_torn(images: &[&Image], bytes: &[u8]) -> bool {
    let is_beginning = |image: &&Image| {
        let after = image.after.as_ref();
        after.is_some_and(|after| after.as_bytes().starts_with(bytes))
    };
    bytes.is_empty() || bytes.contains(&0) || images.iter().any(is_beginning)
}
