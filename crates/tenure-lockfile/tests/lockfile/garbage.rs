//! Lock files full of nonsense.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tenure_core::{Mode, Query, Store, Token};
use tenure_lockfile::{holders, look};
use tenure_os::clock;

use crate::process::LockingProcess;
use crate::stage::{RandomNumbers, Stage, patient, until};
use crate::task::{acquire, open, request, run};

fn random(length: usize) -> Vec<u8> {
    let mut spread = RandomNumbers::new();
    (0..length).map(|_| spread.below(256) as u8).collect()
}

/// Returns the content of a lock file after a writer, an upgradeable holder and two readers.
fn well_used(stage: &Stage) -> Vec<u8> {
    let path = stage.at("used.lock");
    let locker = patient();
    drop(locker.lock_exclusive(&path).unwrap());
    let guards = [Mode::Upgradeable, Mode::Read, Mode::Read].map(|mode| locker.lock(&path, mode));
    let content = fs::read(&path).unwrap();
    drop(guards);
    content
}

/// Does everything a lock can do, on a file with nonsense in it.
fn works(path: &Path) {
    let locker = patient();
    assert_eq!(holders(path).unwrap(), [], "nonsense is not a holder");
    let mut last = Token::NONE;
    for _ in 0..2 {
        let writer = locker.lock_exclusive(path).unwrap();
        assert!(writer.token() > last);
        last = writer.token();
        assert!(patient().try_lock_shared(path).unwrap().is_none());
        assert_eq!(holders(path).unwrap(), [writer.lease()]);
        drop(writer);
        let mut upgradeable = locker.lock_upgradeable(path).unwrap();
        let readers = [
            locker.lock_shared(path).unwrap(),
            locker.lock_shared(path).unwrap(),
        ];
        assert_eq!(holders(path).unwrap().len(), 3);
        assert_eq!(readers[0].token(), last);
        assert!(upgradeable.try_upgrade().unwrap().is_none());
        drop(readers);
        assert!(upgradeable.try_upgrade().unwrap().unwrap() > last);
        last = upgradeable.token();
        assert_eq!(look(path).unwrap().unwrap().token, last);
    }
    assert_eq!(holders(path).unwrap(), []);
}

#[test]
fn nonsense_in_a_lock_file_neither_misleads_nor_breaks_locking() {
    let stage = Stage::new();
    let used = well_used(&stage);
    let mut flipped = used.clone();
    flipped[8 + 20] ^= 1;
    let kinds: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("one byte", b"1".to_vec()),
        ("random", random(100_000)),
        ("zeros", vec![0; 50_000]),
        ("all ones", vec![b'1'; 50_000]),
        ("no text", vec![0xff; 50_000]),
        ("left-over records", used.clone()),
        ("half a cell", used[..40].to_vec()),
        ("half a record", used[..200].to_vec()),
        ("half a reader's record", used[..32_768 + 100].to_vec()),
        ("a wrong token cell", flipped),
        ("someone's data", b"{\"all_ids\": []}\n".repeat(3000)),
    ];
    for (kind, content) in kinds {
        let path = stage.at(&format!("{kind}.lock"));
        fs::write(&path, content).unwrap();
        std::panic::catch_unwind(|| works(&path)).unwrap_or_else(|_| panic!("with {kind}"));
    }
}

#[test]
fn a_huge_lock_file_is_locked_and_looked_at_all_the_same() {
    let stage = Stage::new();
    let path = stage.lock();
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    works(&path);
}

#[test]
fn a_line_mark_that_is_not_true_keeps_nobody_out() {
    let stage = Stage::new();
    let path = stage.lock();
    for mode in [Mode::Read, Mode::Write, Mode::Upgradeable] {
        fs::write(&path, b"1").unwrap();
        assert!(patient().try_lock(&path, mode).unwrap().is_some());
    }
}

#[test]
fn a_lock_file_that_is_overwritten_or_cut_under_a_holder_still_excludes() {
    let stage = Stage::new();
    let path = stage.lock();
    let cut = |path: &Path| {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(0)
            .unwrap()
    };
    let scribble = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&random(60_000), 0).unwrap();
    };
    for spoil in [&cut as &dyn Fn(&Path), &scribble] {
        for mode in [Mode::Read, Mode::Write, Mode::Upgradeable] {
            let guard = patient().lock(&path, mode).unwrap();
            spoil(&path);
            guard.check().unwrap();
            let mut puppet = LockingProcess::new();
            assert_eq!(puppet.tries(Mode::Write, &path), None);
            let seen = look(&path).unwrap().unwrap();
            assert_eq!(
                (seen.holders.len(), seen.left_over),
                (0, 0),
                "no record can be read"
            );
            drop(guard);
            assert!(puppet.tries(Mode::Write, &path).is_some());
        }
    }
}

#[test]
fn a_destroyed_record_is_there_again_after_the_next_renewal() {
    let stage = Stage::new();
    let store = open(&stage);
    let wanted = request("l1", "build", Mode::Write);
    let path = store.path_of(&wanted.resource);
    run(acquire(&store, &wanted)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&random(5000), 64).unwrap();
    let seen = look(&path).unwrap().unwrap();
    assert_eq!((seen.holders.len(), seen.unreadable), (0, 1));
    run(store.renew(&wanted.lease)).unwrap();
    let listed = run(store.list(&Query::default())).unwrap().held;
    assert_eq!(listed[0].lease, wanted.lease);
}

#[test]
fn tokens_grow_where_the_token_cell_is_destroyed() {
    let stage = Stage::new();
    let store = open(&stage);
    let wanted = request("l1", "build", Mode::Write);
    let path = store.path_of(&wanted.resource);
    let mut last = Token::NONE;
    for content in [random(64), vec![0; 64], vec![b'9'; 64], b"1".to_vec()] {
        let granted = run(acquire(&store, &wanted)).unwrap();
        assert!(granted.token > last);
        last = granted.token;
        run(store.release(&wanted.lease)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&content, 0).unwrap();
        until("the next millisecond", || {
            clock::now().as_millis() as u64 > last.get()
        });
    }
    assert!(run(acquire(&store, &wanted)).unwrap().token > last);
}
