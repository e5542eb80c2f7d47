//! The place of a test: a directory of its own, conditions with deadlines, and the kernel's view of
//! locks, threads and descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure_lockfile::FileLocker;

/// Longer than anything takes, on a busy machine too: a test that waits for so long is stuck.
pub const LONG: Duration = Duration::from_secs(60);

/// A directory that is removed with the test.
pub struct Stage {
    path: PathBuf,
    /// `None` if the directory is a part of another stage.
    _directory: Option<tempfile::TempDir>,
}

impl Stage {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            path: directory.path().to_owned(),
            _directory: Some(directory),
        }
    }

    /// Makes a stage in a part of another one.
    pub fn in_directory(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            _directory: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path in the directory.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the lock file that most tests need.
    pub fn lock(&self) -> PathBuf {
        self.at(".data.lock")
    }
}

/// Makes a locker that waits as long as a test may.
pub fn patient() -> FileLocker {
    FileLocker::new(LONG)
}

/// Waits for a condition, and fails if it does not come.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Counts the waits in the kernel for locks of this file, of all processes.
pub fn waits_in_kernel(path: &Path) -> usize {
    let Ok(metadata) = fs::metadata(path) else {
        return 0;
    };
    let device = metadata.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let file = format!(" {major:02x}:{minor:02x}:{} ", metadata.ino());
    let mut locks = String::new();
    let mut list = fs::File::open("/proc/locks").unwrap();
    list.read_to_string(&mut locks).unwrap();
    // A lock and all its waiters are one entry, with a number in front. The list moves while it is
    // read, so an entry can come twice, with another number.
    let mut entries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in locks.lines().filter(|line| line.contains(&file)) {
        let (number, lock) = line.split_once(':').unwrap();
        entries.entry(number).or_default().push(lock);
    }
    let distinct: BTreeSet<_> = entries.into_values().collect();
    let waiting = |lock: &&&str| lock.contains("-> ");
    distinct.iter().flatten().filter(waiting).count()
}

/// Waits until there are so many waits in the kernel for locks of this file.
pub fn until_waiting(path: &Path, count: usize) {
    let what = format!("{count} waiting for {}", path.display());
    let mut seen = 0;
    until(&what, || {
        // The count has to be right twice in a row, since an entry can also be missed.
        let as_many = waits_in_kernel(path) == count;
        seen = if as_many { seen + 1 } else { 0 };
        seen == 2
    });
}

/// Counts of the threads of this process and of its open descriptors. They can only be compared in
/// a process that runs one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessResources {
    threads: usize,
    descriptors: usize,
}

impl ProcessResources {
    pub fn count() -> Self {
        let entries = |directory| fs::read_dir(directory).unwrap().count();
        Self {
            threads: entries("/proc/self/task"),
            descriptors: entries("/proc/self/fd"),
        }
    }

    /// Waits until no more is left than there was before. A joined thread may be seen for a moment
    /// longer, and the thread that watches deadlines stays for a while.
    pub fn until_no_more_than_before(self) {
        let what = format!("no more than {self:?}");
        until(&what, || {
            let now = Self::count();
            now.threads <= self.threads && now.descriptors <= self.descriptors
        });
    }
}

/// Numbers that differ in every run; they only spread moments, and decide nothing.
pub struct RandomNumbers(u64);

impl RandomNumbers {
    pub fn new() -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        Self(now.as_nanos() as u64 | 1)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub fn micros_below(&mut self, end: u64) -> Duration {
        Duration::from_micros(self.below(end))
    }
}

/// Lets a short time pass without giving the processor away.
pub fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Tells threads to stop, even when the test fails: their scope waits for them.
pub struct StopWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
