//! A document in a directory of its own, and its lock as the file system shows it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tenure_core::{Error, Result};
use tenure_files::Cancel;
use tenure_files::node_lock::NodeLock;

use crate::stage::{LONG, Stage};

/// The time that a lock lives without being refreshed, as in Node.
pub const STALE_AFTER: Duration = Duration::from_secs(10);

/// The age of a lock whose holder is long dead.
pub const OLD: Duration = Duration::from_secs(20);

/// The inode of the lock's directory, and its time.
pub type Lock = (u64, SystemTime);

pub struct Scene {
    stage: Stage,
}

impl Scene {
    pub fn new() -> Self {
        let stage = Stage::new();
        fs::write(stage.at("data.json"), "{}\n").unwrap();
        Self { stage }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.stage.at(name)
    }

    pub fn document(&self) -> PathBuf {
        self.at("data.json")
    }

    pub fn lock_path(&self) -> PathBuf {
        self.at("data.json.lock")
    }

    /// Returns the lock as it is now, or `None` if there is none.
    pub fn lock(&self) -> Option<Lock> {
        let metadata = fs::metadata(self.lock_path()).ok()?;
        Some((metadata.ino(), metadata.modified().unwrap()))
    }

    /// Returns the names beside the document.
    pub fn neighbours(&self) -> Vec<String> {
        let entries = fs::read_dir(self.stage.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "data.json").collect();
        names.sort();
        names
    }

    /// Leaves a lock whose holder died long ago.
    pub fn leave_stale(&self) {
        fs::create_dir(self.lock_path()).unwrap();
        set_time(&self.lock_path(), SystemTime::now() - OLD);
    }

    /// Takes the lock as soon as it is free.
    pub fn acquire(&self) -> Result<NodeLock> {
        self.acquire_within(LONG)
    }

    pub fn acquire_within(&self, time: Duration) -> Result<NodeLock> {
        self.acquire_unless(&Cancel::default(), time)
    }

    pub fn acquire_unless(&self, cancel: &Cancel, time: Duration) -> Result<NodeLock> {
        let deadline = Instant::now() + time;
        NodeLock::acquire(&self.document(), deadline, cancel, Arc::new(|_| ()))
    }

    /// Asserts that a brief try to take the lock fails because it is held.
    pub fn assert_busy(&self) {
        let taken = self.acquire_within(Duration::from_millis(200));
        match taken {
            Err(Error::Timeout { context, .. }) => {
                assert_eq!(context.location, self.lock_path().display().to_string());
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was not held"),
        }
    }
}

/// Sets the time of a directory, which in use only its holder may do.
pub fn set_time(directory: &Path, time: SystemTime) {
    let directory = File::open(directory).unwrap();
    directory.set_modified(time).unwrap();
}
