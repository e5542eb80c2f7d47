//! Hundreds of threads in ten processes, on one lock and on ten.
//!
//! The data of a lock is two equal numbers, raised one after the other without anything atomic. A
//! lost update shows in the sum, and a torn one shows to a reader.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tenure_lockfile::FileLocker;

use crate::process::{Child, say};
use crate::stage::Stage;

const PROCESSES: usize = 10;
const THREADS: usize = 50;
/// The number of times that a thread writes, and reads.
const ROUNDS: usize = 3;
/// The test claims that nothing is lost, not that it is fast.
const TIME: Duration = Duration::from_secs(300);

/// Two numbers in a file that should always be equal.
pub struct EqualNumbers(File);

impl EqualNumbers {
    pub fn create(path: &Path) {
        fs::write(path, [0; 16]).unwrap();
    }

    pub fn open(path: &Path) -> Self {
        let mut options = File::options();
        Self(options.read(true).write(true).open(path).unwrap())
    }

    /// Reads both numbers, one after the other.
    pub fn read(&self) -> u64 {
        let one = |at| {
            let mut bytes = [0; 8];
            self.0.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        let first = one(0);
        thread::yield_now();
        let second = one(8);
        assert_eq!(first, second, "someone wrote meanwhile");
        first
    }

    /// Raises both numbers, one after the other.
    pub fn raise(&self) -> u64 {
        let next = self.read() + 1;
        self.0.write_all_at(&next.to_le_bytes(), 0).unwrap();
        thread::yield_now();
        self.0.write_all_at(&next.to_le_bytes(), 8).unwrap();
        next
    }
}

pub fn play(arguments: &[&str]) {
    let directory = Path::new(arguments[0]);
    let locks: usize = arguments[1].parse().unwrap();
    let locker = FileLocker::new(TIME);
    thread::scope(|scope| {
        for place in 0..THREADS {
            let locker = &locker;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let number = (place + round) % locks;
                    let lock = directory.join(format!("{number}.lock"));
                    let twins = EqualNumbers::open(&directory.join(format!("{number}.data")));
                    let guard = locker.lock_exclusive(&lock).unwrap();
                    twins.raise();
                    drop(guard);
                    let guard = locker.lock_shared(&lock).unwrap();
                    twins.read();
                    drop(guard);
                }
            });
        }
    });
    say("done");
}

fn crowd_on(locks: usize) {
    let stage = Stage::new();
    for number in 0..locks {
        EqualNumbers::create(&stage.at(&format!("{number}.data")));
    }
    let directory = stage.path().to_str().unwrap();
    let start = |_| Child::start("crowd", &[directory, &locks.to_string()]);
    let mut children: Vec<_> = (0..PROCESSES).map(start).collect();
    for child in &mut children {
        assert_eq!(child.answer_within(TIME).as_deref(), Some("done"));
    }
    for child in children {
        child.finish();
    }
    let data = |number| EqualNumbers::open(&stage.at(&format!("{number}.data"))).read();
    let sum: u64 = (0..locks).map(data).sum();
    assert_eq!(sum, (PROCESSES * THREADS * ROUNDS) as u64);
}

#[test]
fn fifty_threads_in_ten_processes_lose_nothing_on_one_lock() {
    crowd_on(1);
}

#[test]
fn fifty_threads_in_ten_processes_lose_nothing_on_ten_locks() {
    crowd_on(10);
}
