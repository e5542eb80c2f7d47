//! Publish: directories put in place whole, and their manifests.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::{LeaseId, Owner, Remedy, Resource, Timestamp, Token};

use crate::operation::operation;
use crate::text::Span;

/// Puts a copy of a directory in place, whole: readers see the old content or the new, never a
/// mixture.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// The directory to copy. It stays as it is.
    pub source: PathBuf,
    /// The path at which the copy is put. A directory that is there is replaced.
    pub target: PathBuf,
    /// The resource to lock. Left out, it is `file:` and the path of the target.
    #[serde(default)]
    pub resource: Option<Resource>,
    /// The kind of work that made the directory, kept in the manifest for people. Left out, it is
    /// `publish`.
    #[serde(default = "publish")]
    pub op_type: String,
    /// The longest wait for the lock; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("publish.put", Put, Manifests);

fn publish() -> String {
    "publish".into()
}

/// Compares every file of a published directory with its manifest. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The path of the published directory.
    pub target: PathBuf,
}
operation!("publish.verify", Verify, Verified);

/// Lists the manifests of all that was published to a path, oldest first. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The path to which directories were published.
    pub target: PathBuf,
}
operation!("publish.history", History, Manifests);

/// Manifests, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Manifests {
    /// The manifests, one for each publish.
    pub manifests: Vec<Manifest>,
    /// Always null: the list is complete.
    pub next: Option<String>,
}

impl Manifests {
    /// Returns a whole list.
    pub fn new(manifests: Vec<Manifest>) -> Self {
        Self {
            manifests,
            next: None,
        }
    }
}

/// The state of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ManifestState {
    /// The publish is under way, or was when its process died.
    Pending,
    /// The directory was put in place.
    Committed,
    /// The publish was given up. The directory from before, if any, stayed.
    Aborted,
}

/// The record of one publish, and of the content of its directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// The id of the manifest, which begins with the time.
    pub id: String,
    /// The kind of work that made the directory.
    pub op_type: String,
    /// The path at which the directory is put in place.
    pub target: String,
    /// The path at which the copy was made before it was put in place.
    pub tmp: String,
    /// The state of the publish.
    pub state: ManifestState,
    /// The files and links in the directory. Empty until they are read from their own records.
    #[serde(default)]
    pub files: Vec<PublishedFile>,
    /// The time when the publish began.
    pub created_at: Timestamp,
    /// The time when the directory was put in place, or null if it was not.
    pub committed_at: Option<Timestamp>,
    /// The owner who published it.
    pub author: Owner,
    /// The token of the lease under which it was published.
    pub token: Token,
    /// The id of that lease.
    pub lease: Option<LeaseId>,
    /// The resource of the lease.
    pub resource: Resource,
    /// The host on which it was published.
    pub host: String,
    /// The id of the machine on which it was published.
    pub machine: String,
    /// The id of the boot of the machine during which the inodes were read.
    pub boot: String,
    /// The directory that was at the target before, or null if there was none.
    pub old: Option<Inode>,
    /// The new directory. The manifest has it before anything is copied into it.
    pub new: Option<Inode>,
    /// The permission bits of the new directory, in octal.
    #[serde(default)]
    pub mode: Option<String>,
    /// The number of records that hold the files.
    pub parts: usize,
    /// The size of all files together, in bytes.
    pub bytes: u64,
}

/// A file or link of a published directory, as a manifest has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedFile {
    /// Its path below the directory.
    pub relative_path: String,
    /// The SHA-256 of its content, or of the path to which the link points.
    pub sha256: String,
    /// Its permission bits, in octal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The path to which it points, if it is a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// The inode of a directory, as a manifest keeps it. Device numbers count only within one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inode {
    /// The number of the inode.
    pub inode: u64,
    /// The number of the device that the directory is on.
    pub device: String,
    /// The time when the directory was made, where the file system knows it. It tells the directory
    /// from a later one that got the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<String>,
}

/// The result of a comparison of a directory with its manifest.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The path of the directory. It is not in the JSON, as the request names it.
    #[serde(skip)]
    pub target: PathBuf,
    /// The id of the manifest of the content that should be in place.
    pub manifest: String,
    /// The number of files in the manifest.
    pub files: usize,
    /// The differences, sorted by path. Empty if the directory is as published.
    pub differences: Vec<Difference>,
}

/// One way in which a directory differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The path of the file, below the directory.
    pub relative_path: String,
    /// The difference, in words.
    pub problem: String,
}

/// An unfinished publish that recovery looked at.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Recovered {
    /// The manifest, as it is now.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// The outcome of the publish.
    pub outcome: Outcome,
    /// The reason for the outcome, in words.
    pub reason: Remedy,
}

/// The outcome of an unfinished publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The new directory is in place.
    Committed,
    /// The directory from before stayed, or was put back.
    Aborted,
    /// The publish is under way, or this machine cannot tell.
    Kept,
}

/// A directory that a publish left behind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// The id of the manifest that names the directory.
    pub manifest: String,
    /// The path of the directory.
    pub tmp: String,
    /// True if it was removed.
    pub removed: bool,
    /// The reason why it was removed or kept, in words.
    pub reason: String,
}
