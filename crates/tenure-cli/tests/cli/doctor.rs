//! `tenure doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::holder::Holder;
use crate::world::{World, code, json, text, until};

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let checks = diagnosis["checks"].as_array().unwrap();
    checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {checks:?}"))
}

fn diagnose(world: &World) -> (i32, Value) {
    let output = world.tenure().args(["doctor", "--json"]).output().unwrap();
    (code(&output), json(&output.stdout))
}

#[test]
fn a_sound_store_is_proved_to_exclude() {
    for world in World::each() {
        let (code, diagnosis) = diagnose(&world);
        assert_eq!(
            (code, &diagnosis["problems"]),
            (0, &0.into()),
            "{diagnosis}"
        );
        assert_eq!(diagnosis["store"], world.store());
        assert!(diagnosis["why"].as_str().unwrap().contains("TENURE_STORE"));
        assert_eq!(check(&diagnosis, "exclusion")["ok"], true);
        let slots = check(&diagnosis, "slots")["detail"].as_str().unwrap();
        assert!(
            slots.contains("home/.local/state/tenure/slots.db"),
            "{slots}"
        );
        assert!(
            check(&diagnosis, "directory")["detail"]
                .as_str()
                .unwrap()
                .contains("mode 0700")
        );
        assert!(
            check(&diagnosis, "file system")["detail"]
                .as_str()
                .unwrap()
                .contains("trusted")
        );
    }
}

#[test]
fn a_database_is_looked_over_in_every_part() {
    let world = World::new();
    let _lease = world.lock(["x", "--ttl", "1h"]);
    let _holder = Holder::start(&world, ["y"]);
    let (code, diagnosis) = diagnose(&world);
    assert_eq!(code, 0, "{diagnosis}");
    for (name, part) in [
        ("schema", "version "),
        ("integrity", "every page is sound"),
        ("anchor", "tenure.db-anchor names this database"),
        ("journal", "write-ahead log"),
        ("sessions", "1 alive, 0 dead, 0 unknown"),
        ("size", "database "),
    ] {
        let check = check(&diagnosis, name);
        let detail = check["detail"].as_str().unwrap();
        assert!(check["ok"] == true && detail.contains(part), "{check}");
    }
}

#[test]
fn a_damaged_database_is_a_problem_with_what_to_do_and_doing_it_helps() {
    // One damaged page is found only by reading them all; then the whole file is damaged.
    for (pages, name) in [(1, "integrity"), (usize::MAX, "open")] {
        let world = World::new();
        // The audit grows to pages at the end of the file.
        for _ in 0..30 {
            assert!(world.is_free("x"));
        }
        let path = world.path("store/tenure.db");
        fold(&path);
        let mut bytes = fs::read(&path).unwrap();
        let from = bytes.len().saturating_sub(2048usize.saturating_mul(pages));
        bytes[from..].fill(0xa5);
        fs::write(&path, bytes).unwrap();
        let (code, diagnosis) = diagnose(&world);
        assert_eq!(code, 1, "{diagnosis}");
        let found = check(&diagnosis, name);
        assert_eq!(found["ok"], false, "{diagnosis}");
        let remedy = found["remedy"].as_str().unwrap();
        let shown = path.display();
        for part in [
            format!("move {shown} away"),
            format!("{shown}-wal and {shown}-shm"),
            format!("Leave {shown}-anchor"),
        ] {
            assert!(remedy.contains(&part), "{part} is not in {remedy}");
        }
        assert!(!diagnosis.to_string().contains("tenure doctor"));
        for end in ["", "-wal", "-shm"] {
            let file = world.path("store").join(format!("tenure.db{end}"));
            if file.exists() {
                fs::rename(&file, world.path(&format!("away{end}"))).unwrap();
            }
        }
        let (code, diagnosis) = diagnose(&world);
        assert_eq!(code, 0, "{diagnosis}");
        assert!(world.is_free("x"));
    }
}

/// Folds the log of a database into its file, so that the file alone is the database.
fn fold(path: &std::path::Path) {
    let script = "import sqlite3, sys\n\
                  sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let mut python = Command::new("python3");
    let folded = python.args(["-c", script]).arg(path).status();
    assert!(folded.unwrap().success());
}

#[test]
fn people_are_told_that_all_is_well() {
    for world in World::each() {
        let output = world.tenure().arg("doctor").output().unwrap();
        assert_eq!(code(&output), 0);
        let said = text(&output.stdout);
        assert!(
            said.contains(&world.store()) && said.contains("exclusion"),
            "{said}"
        );
        assert!(said.ends_with("all is well\n"), "{said}");
    }
}

#[test]
fn two_doctors_at_once_do_not_disturb_each_other() {
    for world in World::each() {
        let start = || {
            world
                .tenure()
                .arg("doctor")
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut doctors: Vec<_> = (0..4).map(|_| start()).collect();
        assert!(
            doctors
                .iter_mut()
                .all(|doctor| doctor.wait().unwrap().success())
        );
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_a_problem() {
    for world in World::each() {
        fs::create_dir(world.path("store")).unwrap();
        for (path, mode) in [("", 0o755), ("store", 0o555)] {
            fs::set_permissions(world.path(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        // Root may write everywhere, so the command runs as another user. It is copied to a place
        // that this user can reach.
        let copy = world.copy_of_tenure();
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command
                    .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                    .arg(&copy);
                command
            }
            false => Command::new(&copy),
        };
        world.prepare(&mut command);
        let output = command.args(["doctor", "--json"]).output().unwrap();
        assert_eq!(code(&output), 1, "{output:?}");
        let diagnosis = json(&output.stdout);
        assert_eq!(check(&diagnosis, "directory")["ok"], false, "{diagnosis}");
        assert!(
            check(&diagnosis, "directory")["remedy"]
                .as_str()
                .unwrap()
                .contains("write access")
        );
        assert_eq!(check(&diagnosis, "open")["ok"], false);
    }
}

#[test]
fn a_bad_file_is_a_problem_and_not_the_end() {
    for world in World::each() {
        fs::write(world.path("tenure.toml"), "nonsense = 1\n").unwrap();
        let (code, diagnosis) = diagnose(&world);
        assert_eq!((code, &diagnosis["problems"]), (1, &1.into()));
        assert_eq!(check(&diagnosis, "configuration")["ok"], false);
    }
}

#[test]
fn the_failure_of_the_other_process_is_told_in_its_own_words() {
    let world = World::file();
    assert!(world.is_free("doctor:exclusion"));
    let mut files = fs::read_dir(world.path("store/locks")).unwrap();
    let lock = files.next().unwrap().unwrap().path();
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let (code, diagnosis) = diagnose(&world);
    assert_eq!(code, 1, "{diagnosis}");
    let check = check(&diagnosis, "exclusion");
    let detail = check["detail"].as_str().unwrap();
    assert!(
        detail.contains("another process could not take the lock: "),
        "{detail}"
    );
    assert!(detail.contains(lock.to_str().unwrap()), "{detail}");
    for word in ["internal", "please report", "run: tenure doctor"] {
        assert!(!diagnosis.to_string().contains(word), "{diagnosis}");
    }
}

#[test]
fn a_directory_everyone_can_write_to_is_a_problem() {
    for world in World::each() {
        assert!(world.is_free("x"));
        fs::set_permissions(world.path("store"), fs::Permissions::from_mode(0o777)).unwrap();
        let (code, diagnosis) = diagnose(&world);
        assert_eq!(code, 1);
        assert_eq!(check(&diagnosis, "directory")["ok"], false, "{diagnosis}");
    }
}

#[test]
fn commands_that_outlived_their_run_are_counted() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["x"]);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        let (code, diagnosis) = diagnose(&world);
        assert_eq!(code, 0, "it is no problem: {diagnosis}");
        let detail = check(&diagnosis, "leftovers")["detail"].as_str().unwrap();
        assert!(
            detail.contains("1 lease held, 1 whose run is not seen here"),
            "{detail}"
        );
    }
}

#[test]
fn leases_waiters_and_what_is_stale_are_counted() {
    let world = World::new();
    let _lease = world.lock(["x", "--ttl", "1h"]);
    let _stale = world.lock(["y", "--ttl", "1s"]);
    let mut waiter = world.tenure();
    waiter
        .args(["run", "x", "--", "true"])
        .stderr(std::process::Stdio::null());
    let mut waiter = waiter.spawn().unwrap();
    world.until_waiting(1, waiter.id());
    until("one is stale", || {
        let (_, diagnosis) = diagnose(&world);
        let detail = check(&diagnosis, "leftovers")["detail"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(detail.contains("2 leases held, 0 whose run") && detail.contains("1 waiter,"));
        detail.contains("1 stale lease (tenure recover")
    });
    waiter.kill().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn a_lease_whose_session_nobody_can_prove_is_a_problem_that_break_ends() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    fs::remove_dir_all(world.path("store/sessions")).unwrap();
    let (_, diagnosis) = diagnose(&world);
    let found = check(&diagnosis, "leftovers");
    assert_eq!(found["ok"], false, "{diagnosis}");
    assert!(
        found["remedy"].as_str().unwrap().contains("tenure break"),
        "{found}"
    );
    let listing = world.json(["ls"]);
    assert_eq!(listing["held"][0]["state"], "unknown", "{listing}");
    assert!(!world.is_free("x"), "it may be alive");
    holder.signal_run(libc::SIGKILL);
    holder.let_go();
    let lease = listing["held"][0]["lease"].as_str().unwrap();
    let broken = world.call(["break", lease, "--reason", "its session is gone", "--yes"]);
    assert_eq!(code(&broken), 0, "{broken:?}");
    until("it is free", || world.is_free("x"));
}
