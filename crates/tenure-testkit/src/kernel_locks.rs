//! The kernel's list of file locks: the proof that a thread waits for one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the number of waiters in the kernel for a lock on a file; zero if it does not exist.
///
/// `/proc/locks` has a line with `->` for each waiter. Files are told apart by their inode alone:
/// the device it shows is not that of `stat` on every file system.
pub fn waiters(path: &Path) -> usize {
    let inode = match fs::metadata(path) {
        Ok(metadata) => format!(":{} ", metadata.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return 0,
        Err(error) => panic!("cannot look at {}: {error}", path.display()),
    };
    let locks = fs::read_to_string("/proc/locks").expect("the kernel lists its locks");
    let waits_for_it = |line: &&str| line.contains("->") && line.contains(&inode);
    locks.lines().filter(waits_for_it).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_waits_for_a_file_lock_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        assert_eq!(waiters(&path), 0);
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        assert_eq!(waiters(&path), 0);
        let other = File::open(&path).unwrap();
        let thread = std::thread::spawn(move || other.lock().unwrap());
        let began = Instant::now();
        while waiters(&path) != 1 {
            assert!(began.elapsed() < Duration::from_secs(20), "never seen");
            std::thread::yield_now();
        }
        held.unlock().unwrap();
        thread.join().unwrap();
        assert_eq!(waiters(&path), 0);
    }
}
