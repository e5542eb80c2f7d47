//! Numbers that never go back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tenure_core::{Mode, Store, Token};
use tenure_lockfile::{FileLocker, FileStore};
use tenure_os::clock;

use crate::process::{Child, say};
use crate::stage::{Stage, patient, until};
use crate::task::{acquire, open, request, run};

const PROCESSES: usize = 4;
const DRAWS: usize = 500;

/// Plays a role: draws tokens of a lock, and under the lock compares each with the last in a file.
pub fn play(arguments: &[&str]) {
    let [path, log] = arguments else {
        panic!("{arguments:?}")
    };
    let locker = patient();
    for draw in 0..DRAWS {
        let guard = locker.lock_exclusive(Path::new(path)).unwrap();
        let last: u64 = fs::read_to_string(log).unwrap().trim().parse().unwrap();
        let token = guard.token().get();
        assert!(token > last, "{token} after {last}");
        fs::write(log, token.to_string()).unwrap();
        drop(guard);
        if draw % 10 == 0 {
            let guard = locker.lock_shared(Path::new(path)).unwrap();
            let last: u64 = fs::read_to_string(log).unwrap().trim().parse().unwrap();
            assert_eq!(
                guard.token().get(),
                last,
                "a reader carries the current one"
            );
        }
    }
    say("done");
}

/// Plays a role: draws one token of a store, and says it with the time of its wall clock.
pub fn play_once(arguments: &[&str]) {
    let store = FileStore::open(Path::new(arguments[0]), false).unwrap();
    let granted = run(acquire(&store, &request("child", "build", Mode::Write))).unwrap();
    say(format!("{} {}", granted.token, clock::now().as_millis()));
}

/// Draws one token of a store in a process whose clock is an hour behind.
fn drawn_an_hour_ago(store: &Path) -> Token {
    let installed = std::process::Command::new("faketime")
        .arg("--version")
        .output();
    assert!(
        installed.is_ok(),
        "faketime is missing; install the package faketime"
    );
    let command = ["faketime", "-f", "-1h"];
    let mut child = Child::start_under(&command, "draw-one", &[store.to_str().unwrap()]);
    let answer = child.answer();
    let (token, time) = answer.split_once(' ').unwrap();
    let behind = clock::now().as_millis() - time.parse::<i64>().unwrap();
    assert!(
        behind >= 3_600_000,
        "the clock of the child was not set back"
    );
    child.finish();
    token.parse().unwrap()
}

fn draw(store: &FileStore) -> Token {
    let wanted = request("l1", "build", Mode::Write);
    let token = run(acquire(store, &wanted)).unwrap().token;
    run(store.release(&wanted.lease)).unwrap();
    token
}

#[test]
fn tokens_grow_over_thousands_of_grants_in_several_processes() {
    let stage = Stage::new();
    let (path, log) = (stage.lock(), stage.at("last"));
    fs::write(&log, "0").unwrap();
    let arguments = [path.to_str().unwrap(), log.to_str().unwrap()];
    let start = |_| Child::start("draw", &arguments);
    let mut children: Vec<_> = (0..PROCESSES).map(start).collect();
    for child in &mut children {
        assert_eq!(child.answer(), "done");
    }
    for child in children {
        child.finish();
    }
    let guard = patient().lock_upgradeable(&path).unwrap();
    assert_eq!(guard.token().to_string(), fs::read_to_string(&log).unwrap());
}

#[test]
fn a_try_or_wait_in_vain_draws_no_token() {
    let stage = Stage::new();
    let path = stage.lock();
    let token = patient().lock_exclusive(&path).unwrap().token();
    let upgradeable = patient().lock_upgradeable(&path).unwrap();
    let impatient = FileLocker::new(Duration::from_millis(5));
    for _ in 0..20 {
        assert!(impatient.try_lock_exclusive(&path).unwrap().is_none());
    }
    assert!(impatient.lock_exclusive(&path).is_err());
    drop(upgradeable);
    assert_eq!(patient().lock_shared(&path).unwrap().token(), token);
}

#[test]
fn a_lock_never_held_exclusively_has_no_token() {
    let stage = Stage::new();
    let reader = patient().lock_shared(&stage.lock()).unwrap();
    assert_eq!(reader.token(), Token::NONE);
}

#[test]
fn a_clock_set_back_an_hour_does_not_set_tokens_back() {
    let stage = Stage::new();
    let store = open(&stage);
    let before = draw(&store);
    let behind = drawn_an_hour_ago(&stage.at("store"));
    assert!(behind > before, "{behind} after {before}");
    assert!(draw(&store) > behind);
}

#[test]
fn a_deleted_lock_file_does_not_set_tokens_back() {
    let stage = Stage::new();
    let store = open(&stage);
    let path = store.path_of(&request("l1", "build", Mode::Write).resource);
    let before = draw(&store);
    fs::remove_file(&path).unwrap();
    until("the next millisecond", || {
        clock::now().as_millis() as u64 > before.get()
    });
    assert!(draw(&store) > before);
}

#[test]
fn a_lock_file_deleted_after_a_burst_of_grants_does_not_set_tokens_back() {
    let stage = Stage::new();
    let store = open(&stage);
    let path = store.path_of(&request("l1", "build", Mode::Write).resource);
    let mut before = Token::NONE;
    // Many grants a millisecond let the tokens run ahead of the clock.
    for _ in 0..2000 {
        before = draw(&store);
    }
    fs::remove_file(&path).unwrap();
    let after = draw(&store);
    assert!(after > before, "{after} after {before}");
}

#[test]
fn a_lock_file_deleted_while_the_clock_is_set_back_does_not_set_tokens_back() {
    let stage = Stage::new();
    let store = open(&stage);
    let before = draw(&store);
    fs::remove_file(store.path_of(&request("l1", "build", Mode::Write).resource)).unwrap();
    let after = drawn_an_hour_ago(&stage.at("store"));
    assert!(after > before, "{after} after {before}");
}

#[test]
fn a_lost_file_of_bounds_does_not_set_tokens_back() {
    let stage = Stage::new();
    let before = draw(&open(&stage));
    fs::remove_file(stage.at("store/tokens")).unwrap();
    assert!(draw(&open(&stage)) > before);
}

#[test]
fn a_store_of_an_earlier_boot_goes_on_above_all_its_tokens() {
    let stage = Stage::new();
    let before = draw(&open(&stage));
    let bounds = stage.at("store/tokens");
    let text = fs::read_to_string(&bounds).unwrap();
    let ceiling = text
        .lines()
        .find_map(|line| line.strip_prefix("ceiling "))
        .unwrap();
    let ceiling: u64 = ceiling.parse().unwrap();
    fs::write(
        &bounds,
        text.replace(clock::boot_id().unwrap(), "0000-an-earlier-boot"),
    )
    .unwrap();
    // The power loss took the un-synced contents of the lock file, too.
    let path = open(&stage).path_of(&request("l1", "build", Mode::Write).resource);
    fs::write(path, "").unwrap();
    let after = draw(&open(&stage));
    assert!(
        after > before && after.get() > ceiling,
        "{after} after {before}, {ceiling}"
    );
}
