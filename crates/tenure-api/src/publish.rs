//! Publish: directories put in place whole, and their manifests.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::{LeaseId, Owner, Remedy, Resource, Timestamp, Token};

use crate::operation::operation;
use crate::text::Span;

/// Puts a copy of a directory in place, whole.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// The directory to publish.
    pub source: PathBuf,
    /// The path at which it is published.
    pub target: PathBuf,
    /// The resource to lock: `file:` and the path of the target, if it is left out.
    #[serde(default)]
    pub resource: Option<Resource>,
    /// What made the directory, for people who look.
    #[serde(default = "publish")]
    pub op_type: String,
    /// How long to wait for the lock; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("publish.put", Put, Manifests);

fn publish() -> String {
    "publish".into()
}

/// Compares every file of a target with the manifest that is committed there. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The path at which it was published.
    pub target: PathBuf,
}
operation!("publish.verify", Verify, Verified);

/// Lists what was published to a target, oldest first. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The path at which it was published.
    pub target: PathBuf,
}
operation!("publish.history", History, Manifests);

/// Manifests, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Manifests {
    /// The manifests.
    pub manifests: Vec<Manifest>,
    /// Null: the list is never cut.
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
    /// It is under way, or was when its process died.
    Pending,
    /// Its directory was put in place.
    Committed,
    /// It was given up: what was there before stayed.
    Aborted,
}

/// One publish, and what was in its directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Its id, which begins with the time.
    pub id: String,
    /// The operation that made the directory.
    pub op_type: String,
    /// The path at which it was published.
    pub target: String,
    /// The path at which it was made.
    pub tmp: String,
    /// Its state.
    pub state: ManifestState,
    /// The files. Empty until they are read from their own records.
    #[serde(default)]
    pub files: Vec<PublishedFile>,
    /// The time when it began.
    pub created_at: Timestamp,
    /// The time when it was committed.
    pub committed_at: Option<Timestamp>,
    /// The owner that published it.
    pub author: Owner,
    /// The token of the lease it was made under.
    pub token: Token,
    /// The id of that lease.
    pub lease: Option<LeaseId>,
    /// The resource of the lease.
    pub resource: Resource,
    /// The host it was made on.
    pub host: String,
    /// The id of that machine.
    pub machine: String,
    /// The boot on which the inodes were read.
    pub boot: String,
    /// The directory that was there before.
    pub old: Option<Inode>,
    /// The directory that was made. It is written before anything is copied into it.
    pub new: Option<Inode>,
    /// The permission bits that the new directory is to have, in octal.
    #[serde(default)]
    pub mode: Option<String>,
    /// In how many records the files are.
    pub parts: usize,
    /// The number of bytes in the files.
    pub bytes: u64,
}

/// A file or link of a published directory, as a manifest has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedFile {
    /// Its path below the directory.
    pub relative_path: String,
    /// The hash of its content, or of where the link points.
    pub sha256: String,
    /// Its permission bits, in octal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The target, if it is a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// The inode of a directory, as a manifest keeps it. Device numbers count only within one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inode {
    /// The number of the inode.
    pub inode: u64,
    /// The device it is on.
    pub device: String,
    /// The time when it was made, where the file system knows: a number is used again once its
    /// directory is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<String>,
}

/// A directory compared with its manifest.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The directory. Whoever asked knows it.
    #[serde(skip)]
    pub target: PathBuf,
    /// The manifest of what should be in place.
    pub manifest: String,
    /// The number of its files.
    pub files: usize,
    /// The differences of the directory, by path.
    pub differences: Vec<Difference>,
}

/// One way in which a directory differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The path below the directory.
    pub relative_path: String,
    /// The problem, in words.
    pub problem: String,
}

/// A pending manifest that recovery looked at.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Recovered {
    /// The manifest, as it is now.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, in words.
    pub reason: Remedy,
}

/// The outcome of a pending manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its directory is in place.
    Committed,
    /// The directory from before stayed, or was put back.
    Aborted,
    /// It is under way, or nothing can be told of it here.
    Kept,
}

/// A directory that a publish left behind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// The manifest that names it.
    pub manifest: String,
    /// The directory.
    pub tmp: String,
    /// True if it was removed.
    pub removed: bool,
    /// Why, in words.
    pub reason: String,
}
