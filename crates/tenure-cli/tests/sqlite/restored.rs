//! An older copy of the store's files put back: tokens do not go back with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::other_sqlite::Database;
use crate::process::take;
use crate::world::World;

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

const FILES: [&str; 3] = ["tenure.db", "tenure.db-wal", "tenure.db-shm"];

fn save(world: &World) {
    fs::create_dir(world.path("saved")).unwrap();
    for name in FILES {
        copy(
            &world.path("store").join(name),
            &world.path("saved").join(name),
        );
    }
}

/// Puts the copies back, over the files or in their place.
fn restore(world: &World, in_place: bool) {
    for name in FILES {
        let (saved, path) = (
            world.path("saved").join(name),
            world.path("store").join(name),
        );
        if !in_place {
            fs::remove_file(&path).unwrap();
        }
        copy(&saved, &path);
    }
}

#[test]
fn an_older_copy_of_database_and_log_does_not_take_tokens_back() {
    for in_place in [false, true] {
        let world = World::new();
        take(&world, "x");
        save(&world);
        let mut last = 0;
        for _ in 0..5 {
            last = take(&world, "x");
        }
        restore(&world, in_place);
        for name in ["x", "y", "x"] {
            let token = take(&world, name);
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        Database::of(&world).assert_whole();
    }
}

#[test]
fn a_log_that_lost_its_tail_does_not_take_tokens_back() {
    let world = World::new();
    let mut last = take(&world, "x");
    let log = world.path("store/tenure.db-wal");
    let mut cut = 0;
    for part in [0.9, 0.5, 0.1, 0.0] {
        for _ in 0..3 {
            let token = take(&world, "x");
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        let length = fs::metadata(&log).map_or(0, |log| log.len());
        if length > 0 {
            let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            #[allow(clippy::cast_precision_loss)]
            file.set_len((length as f64 * part) as u64).unwrap();
            cut += 1;
        }
        // The index of the log went with the power as well.
        fs::remove_file(world.path("store/tenure.db-shm")).unwrap();
        let token = take(&world, "x");
        assert!(token > last, "{part}: {token} after {last}");
        last = token;
        Database::of(&world).assert_whole();
    }
    assert!(cut > 0, "there was never a log to cut");
}
