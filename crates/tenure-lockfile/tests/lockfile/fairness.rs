//! Streams of readers and writers: every waiter gets in.
//!
//! A *hand-over* is a grant to another thread or process of the stream while one waits. Within a
//! process the line is first come, first served. Across processes the order is the kernel's, so the
//! bounds there only tell starvation from a queue.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tenure_core::Mode;
use tenure_lockfile::FileLocker;

use crate::process::{Child, LockingProcess, hear, say};
use crate::stage::{RandomNumbers, Stage, StopWhenDropped, patient, spin, until, until_waiting};

const STREAM: usize = 4;
const WAITS: usize = 25;

/// Plays a role: takes the lock in one mode until its input ends, and counts the grants.
pub fn play(arguments: &[&str]) {
    let [mode, path] = arguments else {
        panic!("{arguments:?}")
    };
    let stop = AtomicBool::new(false);
    let granted = AtomicU64::new(0);
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        scope.spawn(|| {
            flow(
                &patient(),
                mode.parse().unwrap(),
                Path::new(path),
                &granted,
                &stop,
            )
        });
        until("the first grant", || granted.load(Ordering::SeqCst) > 0);
        say("flowing");
        while hear().is_some() {
            say(granted.load(Ordering::SeqCst));
        }
        drop(stopping);
    });
}

/// Plays one of a stream: holds the lock most of the time.
fn flow(locker: &FileLocker, mode: Mode, path: &Path, granted: &AtomicU64, stop: &AtomicBool) {
    let mut spread = RandomNumbers::new();
    while !stop.load(Ordering::SeqCst) {
        let guard = locker.lock(path, mode).unwrap();
        granted.fetch_add(1, Ordering::SeqCst);
        spin(spread.micros_below(200));
        drop(guard);
    }
}

/// Returns the median: half of the waits had no more than this many hand-overs.
fn median(mut counts: Vec<u64>) -> u64 {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

fn one_among_threads(one: Mode, stream: Mode) {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let (granted, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut counts = Vec::new();
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        for _ in 0..STREAM {
            scope.spawn(|| flow(&locker, stream, &path, &granted, &stop));
        }
        until("a stream", || granted.load(Ordering::SeqCst) > 100);
        for _ in 0..WAITS {
            let before = granted.load(Ordering::SeqCst);
            let waited = locker.lock(&path, one);
            counts.push(granted.load(Ordering::SeqCst) - before);
            drop(waited);
        }
        drop(stopping);
    });
    assert_eq!(counts.len(), WAITS);
    let median = median(counts);
    assert!(
        median <= 10 * STREAM as u64,
        "{one} waited for {median} hand-overs"
    );
}

fn one_among_processes(one: Mode, stream: Mode) {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let arguments = [stream.as_str(), path.to_str().unwrap()];
    let mut others: Vec<_> = (0..STREAM)
        .map(|_| Child::start("stream", &arguments))
        .collect();
    for other in &mut others {
        assert_eq!(other.answer(), "flowing");
    }
    let mut granted = || {
        let count = |other: &mut Child| other.ask("how many").parse::<u64>().unwrap();
        others.iter_mut().map(count).sum::<u64>()
    };
    let before = granted();
    for _ in 0..WAITS {
        drop(locker.lock(&path, one).unwrap());
    }
    let mean = (granted() - before) / WAITS as u64;
    assert!(mean <= 2000, "{one} waited for {mean} hand-overs each time");
    for other in others {
        other.finish();
    }
}

#[test]
fn a_writer_gets_in_under_a_stream_of_reading_threads() {
    one_among_threads(Mode::Write, Mode::Read);
}

#[test]
fn a_reader_gets_in_under_a_stream_of_writing_threads() {
    one_among_threads(Mode::Read, Mode::Write);
}

#[test]
fn a_writer_gets_in_under_a_stream_of_reading_processes() {
    one_among_processes(Mode::Write, Mode::Read);
}

#[test]
fn a_reader_gets_in_under_a_stream_of_writing_processes() {
    one_among_processes(Mode::Read, Mode::Write);
}

#[test]
fn an_upgradeable_gets_in_under_a_stream_of_writing_processes() {
    one_among_processes(Mode::Upgradeable, Mode::Write);
}

#[test]
fn a_waiting_writer_is_not_overtaken_by_new_readers() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let reader = locker.lock_shared(&path).unwrap();
    let mut writer = LockingProcess::new();
    writer.begin(Mode::Write, &path);
    until_waiting(&path, 1);
    // A reader that tries again and again does not get in, in this process or another, and neither
    // does a reader that waits.
    let mut other = LockingProcess::new();
    for _ in 0..100 {
        assert!(locker.try_lock_shared(&path).unwrap().is_none());
        assert_eq!(other.tries(Mode::Read, &path), None);
    }
    other.begin(Mode::Read, &path);
    until_waiting(&path, 2);
    drop(reader);
    writer.granted();
    assert_eq!(other.child().answer_within(Duration::from_millis(20)), None);
    writer.release();
    other.granted();
}

#[test]
fn many_who_try_at_once_do_not_overtake_a_waiting_writer() {
    let stage = Stage::new();
    let path = stage.lock();
    let reader = patient().lock_shared(&path).unwrap();
    let mut writer = LockingProcess::new();
    writer.begin(Mode::Write, &path);
    until_waiting(&path, 1);
    let overtaken = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            // Each thread has its own locker, so that they meet only in the kernel, as processes
            // do.
            scope.spawn(|| {
                let locker = patient();
                for _ in 0..3000 {
                    let granted = locker.try_lock_shared(&path).unwrap();
                    overtaken.fetch_add(u64::from(granted.is_some()), Ordering::SeqCst);
                }
            });
        }
    });
    let overtaken = overtaken.into_inner();
    assert_eq!(overtaken, 0, "of 12000 tries so many were granted");
    drop(reader);
    writer.granted();
}

#[test]
fn a_writer_is_not_held_up_by_many_who_try_to_read_all_the_time() {
    let stage = Stage::new();
    let path = stage.lock();
    let (stop, tries) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        for _ in 0..6 {
            scope.spawn(|| {
                let locker = patient();
                while !stop.load(Ordering::SeqCst) {
                    drop(locker.try_lock_shared(&path).unwrap());
                    tries.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let locker = patient();
        let mut counts = Vec::new();
        for _ in 0..2 * WAITS {
            let before = tries.load(Ordering::SeqCst);
            let granted = locker.lock_exclusive(&path);
            counts.push(tries.load(Ordering::SeqCst) - before);
            if granted.is_err() {
                break;
            }
        }
        drop(stopping);
        // A thread that is not scheduled for a moment sees thousands of tries, and a thread that is
        // kept out sees a hundred thousand. On a machine that itself stands still, that happens
        // once or twice.
        let kept_out = counts.iter().filter(|count| **count >= 50_000).count();
        assert!(
            kept_out <= 2,
            "tries of others during each wait: {counts:?}"
        );
    });
}

#[test]
fn waiting_readers_are_granted_together() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let writer = locker.lock_exclusive(&path).unwrap();
    let mut puppets: Vec<_> = (0..3).map(|_| LockingProcess::new()).collect();
    for (before, puppet) in puppets.iter_mut().enumerate() {
        puppet.begin(Mode::Read, &path);
        until_waiting(&path, before + 1);
    }
    drop(writer);
    // All readers have the lock before any gives it back.
    for puppet in &mut puppets {
        puppet.granted();
    }
}

#[test]
fn a_thread_in_line_is_served_before_one_that_comes_later() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let holder = locker.lock_exclusive(&path).unwrap();
    let served = AtomicU64::new(0);
    thread::scope(|scope| {
        for place in 0..6 {
            let (locker, path, served) = (&locker, &path, &served);
            let (sender, started) = std::sync::mpsc::channel();
            scope.spawn(move || {
                sender
                    .send(rustix::thread::gettid().as_raw_nonzero())
                    .unwrap();
                let guard = locker.lock_exclusive(path).unwrap();
                assert_eq!(served.fetch_add(1, Ordering::SeqCst), place);
                drop(guard);
            });
            crate::line::until_waits(started.recv().unwrap().get());
        }
        drop(holder);
    });
    assert_eq!(served.load(Ordering::SeqCst), 6);
}
