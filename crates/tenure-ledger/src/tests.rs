//! Threads that append together, and how the newest event is found.

use crate::LedgerError;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::{Asker, Class, Error, Owner, RetryPolicy, SessionId};

use super::*;

const WAIT: Duration = Duration::from_secs(60);

fn new() -> (tempfile::TempDir, Ledger) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    Ledger::init(&path, None).unwrap();
    let ledger = Ledger::open(&path, WAIT).unwrap();
    (root, ledger)
}

/// Returns a caller with this owner.
pub(super) fn asker(owner: &str) -> Asker {
    Asker {
        session: SessionId::parse(owner).unwrap(),
        owner: Owner::parse(owner).unwrap(),
        pid: std::process::id(),
        host: "here".into(),
        command: "test".into(),
        agent: None,
    }
}

fn caller(owner: &str) -> FileCaller {
    FileCaller::new(asker(owner), WAIT)
}

/// Returns the ledger for a caller whose waits this ends.
fn cancelled_by(ledger: &Ledger, cancel: &Cancel) -> Ledger {
    let mut caller = caller("ana");
    caller.cancel = cancel.clone();
    ledger.for_caller(&caller)
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
    let (_root, ledger) = new();
    let locked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&locked);
    let mut caller = caller("ana");
    caller.on_locked = Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let ledger = ledger.for_caller(&caller);
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
fn each_caller_claims_in_its_own_name_whoever_writes_it() {
    let (_root, ledger) = new();
    ledger.append(&event(0)).unwrap();
    fs::create_dir(ledger.names.lock()).unwrap();
    thread::scope(|scope| {
        let claim = |owner: &'static str| {
            let ledger = ledger.for_caller(&caller(owner));
            scope.spawn(move || ledger.claim(&owner.parse().unwrap(), None).unwrap())
        };
        let leader = claim("ana");
        until("a leader", || ledger.append_queue.has_leader());
        let follower = claim("bo");
        until("it follows", || sleeping(&ledger) == 1);
        fs::remove_dir(ledger.names.lock()).unwrap();
        for (owner, thread) in [("ana", leader), ("bo", follower)] {
            assert_eq!(thread.join().unwrap().owner, owner);
        }
    });
    let bos = ledger.for_caller(&caller("bo"));
    let refused = bos.release(&"ana".parse().unwrap()).unwrap_err();
    assert_eq!(refused.class(), Class::NotAllowed, "{refused}");
    bos.release(&"bo".parse().unwrap()).unwrap();
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

/// Returns how many appends sleep until they are answered or may lead.
fn sleeping(ledger: &Ledger) -> usize {
    ledger.append_queue.sleeping()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn names(ledger: &Ledger) -> BTreeSet<std::ffi::OsString> {
    let names = ledger.disk.names(ledger.names.ledger()).unwrap();
    names.into_iter().collect()
}

#[test]
fn cancelled_waits_end_and_leave_nothing_whether_they_lead_or_follow() {
    let (_root, ledger) = new();
    ledger.append(&event(0)).unwrap();
    fs::create_dir(ledger.names.lock()).unwrap();
    let before = names(&ledger);
    let cancels: [Cancel; 3] = Default::default();
    thread::scope(|scope| {
        let append = |cancel: &Cancel, n| {
            let ledger = cancelled_by(&ledger, cancel);
            scope.spawn(move || ledger.append(&event(n)))
        };
        let leader = append(&cancels[0], 1);
        until("a leader", || ledger.append_queue.has_leader());
        let followers = [append(&cancels[1], 2), append(&cancels[2], 3)];
        until("both follow", || sleeping(&ledger) == 2);
        let assert_interrupted =
            |thread: thread::ScopedJoinHandle<'_, tenure_core::Result<u64>>| {
                let error = thread.join().unwrap().unwrap_err();
                assert_eq!(error.class(), Class::Interrupted, "{error}");
            };
        let [first, second] = followers;
        cancels[1].cancel();
        assert_interrupted(first);
        cancels[0].cancel();
        assert_interrupted(leader);
        until("the other leads", || sleeping(&ledger) == 0);
        cancels[2].cancel();
        assert_interrupted(second);
    });
    assert_eq!(names(&ledger), before);
    fs::remove_dir(ledger.names.lock()).unwrap();
    assert_eq!(ledger.append(&event(4)).unwrap(), 2);
}

#[test]
fn an_append_that_is_cancelled_once_it_writes_completes() {
    let (_root, ledger) = new();
    let cancel = Cancel::default();
    let mut caller = caller("ana");
    let told = cancel.clone();
    caller.on_locked = Arc::new(move || told.cancel());
    caller.cancel = cancel.clone();
    let ledger = ledger.for_caller(&caller);
    assert_eq!(ledger.append(&event(0)).unwrap(), 1);
    assert!(cancel.is_cancelled());
    assert_eq!(
        ledger.claim(&"1.2".parse().unwrap(), None).unwrap().token,
        2
    );
}

#[test]
fn pauses_between_tries_and_the_wait_for_an_event_are_cancelled() {
    let (_root, ledger) = new();
    let cancel = Cancel::default();
    let cancelled = cancelled_by(&ledger, &cancel);
    let policy = RetryPolicy {
        first: WAIT,
        longest: WAIT,
        ..RetryPolicy::default()
    };
    thread::scope(|scope| {
        let following = scope.spawn(|| cancelled.follow(1).next(None).map(drop));
        let (ledger, cancel) = (&ledger, &cancel);
        let started = Instant::now();
        let tried = cancelled.append_retrying(&policy, |newest| {
            // Another append comes first, so that a pause follows.
            ledger.append(&event(newest as usize)).unwrap();
            cancel.cancel();
            Ok::<_, Error>(Some(event(0)))
        });
        assert_eq!(tried.unwrap_err().class(), Class::Interrupted);
        assert!(started.elapsed() < WAIT / 2, "it slept");
        let followed = following.join().unwrap();
        assert_eq!(followed.unwrap_err().class(), Class::Interrupted);
    });
    assert_eq!(ledger.newest().unwrap(), 1);
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
        refused.unwrap_err().fault(),
        Some(LedgerError::SequenceMismatch {
            expected: 40,
            actual: 41,
            ..
        })
    ));
}

#[test]
fn the_newest_event_is_found_with_any_note_and_a_missing_one_is_named() {
    let (_root, ledger) = new();
    for sequence in 1..=1000 {
        put(&ledger, sequence);
    }
    let note = |text: &str| fs::write(ledger.names.newest(), text).unwrap();
    let boot = ledger.boot_id.clone();
    for (sequence, inode) in [(1, 1), (500, 7), (1000, 1)] {
        note(&newest::Note::text(sequence, inode, &boot, 0));
        assert_eq!(ledger.newest().unwrap(), 1000, "{sequence}");
    }
    for nonsense in ["", "x", "1000", "-1 1 boot\n", "5000 1 boot 0 0\n"] {
        note(nonsense);
        assert_eq!(ledger.newest().unwrap(), 1000, "{nonsense:?}");
    }
    let assert_named = |missing: u64| {
        let path = ledger.names.event(missing);
        for refused in [ledger.newest(), ledger.append(&event(0))] {
            let refused = refused.unwrap_err();
            let is_named = matches!(&refused, Error::Corrupt { path: named, .. } if *named == path);
            assert!(is_named, "{missing}: {refused}");
        }
    };
    for missing in [1, 500, 800, 999] {
        fs::remove_file(ledger.names.event(missing)).unwrap();
        assert_named(missing);
        put(&ledger, missing);
    }
    // The acknowledged number may be higher than that of every event that is there.
    note(&newest::Note::text(1001, 1, "other-boot", 0));
    assert_named(1001);
    assert!(!ledger.has(1002).unwrap());
}

#[test]
fn a_number_past_six_digits_is_wider() {
    let (_root, ledger) = new();
    put(&ledger, 999_999);
    let identity = ledger
        .disk
        .identity(&ledger.names.event(999_999))
        .unwrap()
        .unwrap();
    let note = newest::Note::text(999_999, identity.inode(), &ledger.boot_id, 0);
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
