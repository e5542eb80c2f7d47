//! Documents: JSON files that many processes read and change, and that are never torn.
//!
//! ```
//! # fn main() -> Result<(), tenure_files::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("counter.json");
//! use std::time::Duration;
//! use tenure_files::document::Documents;
//!
//! let documents = Documents::new(Duration::from_secs(5));
//! documents.write(&path, &serde_json::json!({"n": 1}))?;
//! let n = documents.transaction(&path, |counter: &mut serde_json::Value| {
//!     counter["n"] = (counter["n"].as_u64().unwrap_or(0) + 1).into();
//!     Ok::<_, tenure_files::Error>(counter["n"].clone())
//! })?;
//! assert_eq!(n, 2);
//! # Ok(())
//! # }
//! ```
//!
//! Three layers make one call: a kernel lock beside the file, shared by readers and exclusive for a
//! writer, between processes and threads alike; the line inside the process; and the atomic
//! replace. A document's lock file is `.NAME.lock`. It is never removed: a lock file that is
//! removed while a process has it open protects nothing.
//!
//! | module | what it holds |
//! |---|---|
//! | `path`, `content`, `json`, `style` | the location of a document; its content; the check of JSON; its layout |
//! | `lock`, `read`, `edit`, `transaction` | locks; reading; the one way to change; values of a program |
//! | `re_entry`, `node` | work that asks for its own document; documents shared with Node |
//! | `fence`, `note` | tokens at the write; the note that a document keeps beside itself |
//! | `several`, `journal`, `recover` | transactions over several documents |
//! | `follow` | seeing changes as they come |
//! | `clean` | removal of files that crashed writers left |
//!
//! # What can be cancelled
//!
//! The [`Cancel`](crate::Cancel) of a [caller](Documents::for_caller) ends the waits for our locks
//! and Node's, and for the next version of a document that is followed. Locks that are held by then
//! are released, and nothing has changed. From the first write on a call waits for nothing, so it
//! completes, and its result says so.
//!
//! # Guarantees
//!
//! - A reader sees a whole document, before a change or after it. A reader of several documents
//!   sees them as they were at one moment.
//! - A change is read, worked on and written under one exclusive lock. An error or a panic in
//!   between leaves the document as it was.
//! - A change that was acknowledged is durable.
//! - A transaction over several documents happens to all of them or to none, across a crash at any
//!   instant. The next reader or writer finishes a transaction of a dead process.
//! - With a [`Fence`], a write with an older token of the same lock is refused, after a crash, too.
//! - Mode, owner, symbolic links, key order, indentation, byte order mark and the last newline stay
//!   as they were.
//!
//! # Limitations
//!
//! - The guarantees hold on one machine, on local file systems, for programs that take the lock. A
//!   program that writes the file without it is not kept out, and a half of its write may be read.
//!   A file that it wrote between a change's read and its write is not overwritten, except for the
//!   cases in [`tenure_os::replace`].
//! - Hard links, access lists and extended attributes are not carried over to the new file.
//! - A user that may read a document but not write it or its lock file reads without a lock: each
//!   document is whole, but several are not seen at one moment.
//! - A document has at most 256 MiB and is nested at most 127 deep; a transaction has at most 256
//!   documents.
//! - In programs, numbers go through the program's types: an integer of more than 64 bits is
//!   rounded. The command copies text and changes no number.

mod clean;
mod content;
#[cfg(test)]
mod crashes;
mod edit;
mod error;
mod fence;
mod follow;
mod journal;
mod json;
mod lock;
mod node;
mod note;
mod path;
mod re_entry;
mod read;
mod recover;
mod several;
mod style;
mod transaction;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Result;

pub use content::Content;
pub use edit::{Terms, check_json};
pub use error::DocumentError;
pub use fence::Fence;
pub use follow::Follow;
pub use json::{DOCUMENT_BYTES_MAX, Lexer};
pub(crate) use path::lock_beside;
pub use several::DOCUMENTS_MAX;
pub use style::laid_out;
pub use tenure_api::doc::{Expect, Version};

use tenure_lockfile::{FileCaller, FileLocker};
use tenure_os::disk::{Disk, RealDisk};

/// Reads and changes documents. One value is enough for all threads of a program.
///
/// A clone shares the queues and open lock files; [`for_caller`](Documents::for_caller) makes one
/// for another caller.
#[derive(Clone)]
pub struct Documents {
    locker: FileLocker,
    disk: Arc<dyn Disk>,
    shared_with_node: bool,
    /// The function that is called when Node's lock is lost while it is held.
    on_lost: Arc<dyn Fn(&str) + Send + Sync>,
    /// The function that is called when the waiting for locks is over.
    on_locked: Arc<dyn Fn() + Send + Sync>,
}

impl Documents {
    /// Returns documents for this process, whose waits end after `wait`.
    pub fn new(wait: Duration) -> Self {
        Self {
            locker: FileLocker::new(wait).with(lock::document_name, lock::prepare),
            disk: Arc::new(RealDisk),
            shared_with_node: false,
            on_lost: Arc::new(|_| ()),
            on_locked: Arc::new(|| ()),
        }
    }

    /// Returns the documents for a caller. A wait that the caller cancels ends with
    /// [`Error::Interrupted`](tenure_core::Error::Interrupted).
    pub fn for_caller(&self, caller: &FileCaller) -> Self {
        Self {
            locker: self.locker.for_caller(caller),
            on_locked: Arc::clone(&caller.on_locked),
            ..self.clone()
        }
    }

    /// Takes the lock of Node's proper-lockfile, too, inside our own. `on_lost` is called at once
    /// when it is lost; a write is then refused. The wait should exceed the ten seconds after which
    /// the lock of a dead program is taken over.
    pub fn shared_with_node(mut self, on_lost: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.shared_with_node = true;
        self.on_lost = Arc::new(on_lost);
        self
    }

    /// Skips the check that locks hold on the file system.
    pub fn trusting_the_file_system(mut self) -> Self {
        self.locker = self.locker.trusting_the_file_system();
        self
    }

    /// Returns the lock file of a document, for [`holders`](tenure_lockfile::holders).
    pub fn lock_file(document: &Path) -> Result<PathBuf> {
        Ok(path::Location::of(document)?.lock())
    }

    /// Returns the document of a lock file, or `None` for a name of another form.
    pub fn document_of(lock: &Path) -> Option<PathBuf> {
        let document = path::document_of_lock(lock.file_name()?)?;
        Some(lock.with_file_name(document))
    }
}
