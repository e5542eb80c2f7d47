//! Threads that append together, and how the newest event is found.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::{Class, Error, RetryPolicy};

use super::*;

const WAIT: Duration = Duration::from_secs(60);

fn new() -> (tempfile::TempDir, Ledger) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    Ledger::init(&path, None).unwrap();
    let ledger = Ledger::open(&path, WAIT).unwrap();
    (root, ledger)
}

fn put(ledger: &Ledger, sequence: u64) {
    fs::write(ledger.names.event(sequence), "{\"type\":\"x\"}\n").unwrap();
}

fn event(number: usize) -> String {
    format!("{{\"type\":\"x\",\"n\":{number}}}")
}

#[test]
fn threads_that_append_together_share_the_lock_and_each_has_its_own_event() {
    const THREADS: usize = 8;
    const EACH: usize = 20;
    let (_root, mut ledger) = new();
    let locked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&locked);
    ledger = ledger.on_locked(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let began = Barrier::new(THREADS);
    let numbers = thread::scope(|scope| {
        let append = |thread: usize| {
            let (ledger, began) = (&ledger, &began);
            move || {
                began.wait();
                let append = |number: usize| {
                    let event = event(thread * EACH + number);
                    let sequence = ledger.append(&event).unwrap();
                    let found = ledger.event(sequence).unwrap().unwrap();
                    assert_eq!(found.text.trim_end(), event);
                    sequence
                };
                (0..EACH).map(append).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(append(thread)))
            .collect();
        let numbers = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        numbers.collect::<BTreeSet<_>>()
    });
    assert!(numbers.into_iter().eq(1..=(THREADS * EACH) as u64));
    let locked = locked.load(Ordering::Relaxed);
    assert!(
        locked < THREADS * EACH,
        "{locked} times locked: none was written together"
    );
    assert!(ledger.verify().unwrap().findings.is_empty());
}

#[test]
fn who_waits_too_long_in_the_line_leaves_nothing_and_the_others_go_on() {
    let (_root, mut ledger) = new();
    ledger.append(&event(0)).unwrap();
    ledger.locker = FileLocker::new(Duration::from_millis(50));
    fs::create_dir(ledger.names.lock()).unwrap();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|n| {
                scope.spawn({
                    let ledger = &ledger;
                    move || ledger.append(&event(n))
                })
            })
            .collect();
        for thread in waiting {
            assert_eq!(thread.join().unwrap().unwrap_err().class(), Class::Busy);
        }
    });
    fs::remove_dir(ledger.names.lock()).unwrap();
    assert_eq!(ledger.append(&event(1)).unwrap(), 2);
    let names = ledger.disk.names(ledger.names.ledger()).unwrap();
    let left = names
        .iter()
        .filter(|name| name.to_string_lossy().starts_with(".event-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn appends_that_compare_are_tried_again_until_nobody_comes_first() {
    let (_root, ledger) = new();
    let policy = RetryPolicy {
        attempts: 1000,
        first: Duration::from_millis(1),
        longest: Duration::from_millis(20),
        ..RetryPolicy::default()
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    // Each event names the one before it.
                    let next = |newest: u64| Ok::<_, Error>(Some(event(newest as usize)));
                    ledger.append_retrying(&policy, next).unwrap();
                }
            });
        }
    });
    for (found, before) in ledger.events_after(0).zip(0..) {
        assert_eq!(found.unwrap().text.trim_end(), event(before));
    }
    assert_eq!(ledger.newest().unwrap(), 40);
    let none = ledger.append_retrying(&policy, |_| Ok::<_, Error>(None));
    assert_eq!(none.unwrap(), None);
    let once = RetryPolicy {
        attempts: 1,
        ..policy
    };
    let refused = ledger.append_retrying(&once, |newest| {
        put(&ledger, newest + 1);
        Ok::<_, Error>(Some(event(0)))
    });
    assert!(matches!(
        refused,
        Err(Error::SequenceMismatch {
            expected: 40,
            actual: 41,
            ..
        })
    ));
}

#[test]
fn the_newest_event_is_found_from_any_hint_and_never_behind_a_gap_of_a_crash() {
    let (_root, ledger) = new();
    for sequence in 1..=1000 {
        put(&ledger, sequence);
    }
    let note = |text: String| fs::write(ledger.names.newest(), text).unwrap();
    for hint in [0, 1, 500, 936, 999, 1000, 1001, 5000, u64::MAX - 1] {
        note(format!("{hint} 1 boot\n"));
        assert_eq!(ledger.newest().unwrap(), 1000, "{hint}");
    }
    for nonsense in ["", "x", "1000", "-1 1 boot\n", "1000 1\n"] {
        note(nonsense.to_owned());
        assert_eq!(ledger.newest().unwrap(), 1000, "{nonsense:?}");
    }
    for missing in [938, 970, 999] {
        fs::remove_file(ledger.names.event(missing)).unwrap();
        for hint in [0, 500, missing - 1] {
            note(format!("{hint} 1 boot\n"));
            assert_eq!(ledger.newest().unwrap(), missing - 1, "{hint}");
        }
        put(&ledger, missing);
    }
}

#[test]
fn an_event_that_someone_removed_far_behind_the_newest_is_named() {
    let (_root, ledger) = new();
    for sequence in 1..=1000 {
        put(&ledger, sequence);
    }
    fs::remove_file(ledger.names.event(800)).unwrap();
    let refused = ledger.append(&event(0)).unwrap_err();
    assert!(
        matches!(&refused, Error::Corrupt { path, .. } if path.ends_with("event-000800.json")),
        "{refused}"
    );
    assert!(!ledger.has(1001).unwrap());
}

#[test]
fn a_number_past_six_digits_is_wider() {
    let (_root, ledger) = new();
    for sequence in 999_900..=999_999 {
        put(&ledger, sequence);
    }
    let identity = ledger
        .disk
        .identity(&ledger.names.event(999_999))
        .unwrap()
        .unwrap();
    let note = format!("999999 {} {}\n", identity.inode(), ledger.boot_id);
    fs::write(ledger.names.newest(), note).unwrap();
    assert_eq!(ledger.append(&event(0)).unwrap(), 1_000_000);
    assert!(ledger.names.ledger().join("event-1000000.json").exists());
    assert_eq!(ledger.append(&event(1)).unwrap(), 1_000_001);
}

#[test]
fn a_follower_ends_with_its_limit_and_misses_nothing() {
    let (_root, ledger) = new();
    ledger.append(&event(0)).unwrap();
    let mut follow = ledger.follow(0);
    assert_eq!(follow.next(None).unwrap().unwrap().sequence, 1);
    let began = Instant::now();
    assert_eq!(follow.next(Some(Duration::from_millis(20))).unwrap(), None);
    assert!(began.elapsed() >= Duration::from_millis(20));
    thread::scope(|scope| {
        scope.spawn(|| ledger.append(&event(1)).unwrap());
        assert_eq!(follow.next(None).unwrap().unwrap().sequence, 2);
    });
}
