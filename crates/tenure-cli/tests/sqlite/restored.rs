//! An older copy of the store's files put back: tokens do not go back with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::other_sqlite::Database;
use crate::process::{TELL, field, held, take, token};
use crate::world::{World, code};

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

/// Takes x as after a power loss: with another boot id.
fn take_after_reboot(world: &World, boot: u32) -> u64 {
    let id = world.path("boot_id");
    fs::write(&id, format!("00000000-0000-4000-8000-{boot:012}\n")).unwrap();
    let script = r#"mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@""#;
    let mut command = Command::new("unshare");
    world.prepare(&mut command);
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&id);
    command.arg(env!("CARGO_BIN_EXE_tenure"));
    command.args(["run", "--no-wait", "x"]).args(TELL);
    token(&command.output().unwrap())
}

#[test]
fn a_power_loss_that_takes_what_was_not_synced_does_not_take_tokens_back() {
    let world = World::new();
    let mut last = take(&world, "x");
    let log = world.path("store/tenure.db-wal");
    let anchor = world.path("store/tenure.db-anchor");
    for (boot, keep) in [90, 50, 10, 0].into_iter().enumerate() {
        let boot = u32::try_from(boot).unwrap();
        // From here on nothing is synced that does not have to be.
        last = take_after_reboot(&world, 2 * boot);
        copy(&anchor, &world.path("anchor"));
        for _ in 0..3 {
            let token = take_after_reboot(&world, 2 * boot);
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        if fs::metadata(&log).unwrap().len() == 0 {
            // The last command left a long log, and folded it.
            last = take_after_reboot(&world, 2 * boot);
        }
        let length = fs::metadata(&log).unwrap().len();
        assert!(length > 0, "there is no log to cut");
        let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(length * keep / 100).unwrap();
        // The index of the log lives in memory only, and so does the last token.
        fs::remove_file(world.path("store/tenure.db-shm")).unwrap();
        copy(&world.path("anchor"), &anchor);
        let token = take_after_reboot(&world, 2 * boot + 1);
        assert!(token > last, "{keep}: {token} after {last}");
        last = token;
        Database::of(&world).assert_whole();
    }
    assert!(last > 0);
}

#[test]
fn a_log_that_lost_its_tail_does_not_take_tokens_back() {
    let world = World::new();
    let mut last = take(&world, "x");
    for keep in [90, 50, 10, 0] {
        for _ in 0..3 {
            last = take(&world, "x");
        }
        let log = world.path("store/tenure.db-wal");
        let length = fs::metadata(&log).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(length * keep / 100).unwrap();
        fs::remove_file(world.path("store/tenure.db-shm")).unwrap();
        // A lease whose end was in the tail is back; nothing proves its session dead.
        for lease in held(&world) {
            assert_eq!(lease["state"], "unknown", "{lease}");
            let lease = field(&lease, "lease");
            let broken = world.call(["break", &lease, "--reason", "log lost", "--yes"]);
            assert_eq!(code(&broken), 0, "{broken:?}");
        }
        let run = ["run", "--wait", "30s", "x"];
        let token = token(&world.call(run.into_iter().chain(TELL)));
        assert!(token > last, "{keep}: {token} after {last}");
        last = token;
        Database::of(&world).assert_whole();
    }
    assert!(last > 0);
}
