//! Returns a document each time it changes.
//!
//! The file is looked at ten times a second. It is read only if it was written, or another file
//! took its place, since the last read. A document is replaced by a rename, which gives its name
//! another inode.
//!
//! # Limitations
//!
//! A change is seen within a tenth of a second. A program that writes into the file itself, to the
//! same length and within one tick of the file system's clock, is not seen.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_api::doc::Version;
use tenure_core::{Error, Result};
use tenure_lockfile::resource_of;
use tenure_os::cancel::Ended;
use tenure_os::look::look_until;

use super::Documents;
use super::content::Content;

/// The interval of looks at the file.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The versions of a document, one after the other. No lock is held in between.
pub struct Follow {
    documents: Documents,
    /// The path that was given. It may be a link, which may lead elsewhere later.
    path: PathBuf,
    /// The file that was read last, or `None` if it must be read in any case.
    read: Option<FileState>,
    /// The version that was returned last, if any was.
    seen: Option<Option<Version>>,
}

/// The device, inode, size and time of a file, or `None` if there is no file.
type FileState = Option<(u64, u64, u64, i64, i64)>;

impl Follow {
    pub(super) fn new(documents: Documents, path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|source| Error::io("find", path, source))?;
        let follow = Self {
            documents,
            path,
            read: None,
            seen: None,
        };
        follow.require_directory()?;
        Ok(follow)
    }

    /// Returns the next version: at once the first time, then whenever the content differs from the
    /// one returned last. Returns `Some(None)` if the document is gone, `None` when `limit` is
    /// over. A cancelled wait is [`Error::Interrupted`].
    ///
    /// Changes in quick succession may be seen as one. The content need not be JSON.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Option<Content>>> {
        let cancel = self.documents.locker.cancel().clone();
        let found = look_until(LOOK_EVERY, limit, &cancel, || {
            // The state is taken before the read: a write in between changes it, and the file is
            // read again.
            let state = self.state()?;
            if self.read == Some(state) {
                return Ok(None);
            }
            let content = self.documents.read_if_there(&self.path)?;
            self.read = Some(state);
            let version = content.as_ref().map(Content::version);
            if self.seen == Some(version) {
                return Ok(None);
            }
            self.seen = Some(version);
            Ok(Some(content))
        })?;
        match found {
            Ok(content) => Ok(Some(content)),
            Err(Ended::Deadline) => Ok(None),
            Err(Ended::Cancelled) => Err(Error::interrupted(resource_of(&self.path))),
        }
    }

    fn state(&self) -> Result<FileState> {
        match fs::metadata(&self.path) {
            Ok(file) => Ok(Some((
                file.dev(),
                file.ino(),
                file.size(),
                file.mtime(),
                file.mtime_nsec(),
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.require_directory()?;
                Ok(None)
            }
            Err(source) => Err(Error::io("look at", &self.path, source)),
        }
    }

    /// Fails without a directory: a document that cannot be created is not waited for.
    fn require_directory(&self) -> Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let found = fs::metadata(directory);
        found
            .map(drop)
            .map_err(|source| Error::io("look at", directory, source))
    }
}
