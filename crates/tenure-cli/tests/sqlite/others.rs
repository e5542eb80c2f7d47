//! A store that others may write is refused: a user who can write it can take any lock in it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::world::{World, code, text};

const ANOTHER: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a store with everything that can be beside a database, and returns its parts.
fn store() -> (World, Vec<&'static str>) {
    let world = World::new();
    assert!(world.is_free("x"));
    fs::create_dir_all(world.path("store/wake")).unwrap();
    let parts = vec![
        "store",
        "store/tenure.db",
        "store/tenure.db-wal",
        "store/tenure.db-shm",
        "store/tenure.db-anchor",
        "store/sessions",
        "store/wake",
    ];
    for part in &parts {
        let mode = if world.path(part).is_dir() {
            0o700
        } else {
            0o600
        };
        set_mode(&world.path(part), mode);
    }
    assert!(world.is_free("x"));
    (world, parts)
}

/// Asserts that nothing is done, and that the message names the part and the reason.
#[track_caller]
fn assert_refused(world: &World, part: &str, why: &str) {
    for arguments in [
        &["run", "--no-wait", "x", "--", "echo", "ran"][..],
        &["lock", "x", "--no-wait"],
        &["ls"],
    ] {
        let output = world.call(arguments.iter().copied());
        assert_eq!(code(&output), 78, "{part}, {arguments:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        let path = world.path(part).display().to_string();
        assert!(said.contains(&path) && said.contains(why), "{said}");
    }
}

#[test]
fn a_store_that_others_may_write_is_refused() {
    let (world, parts) = store();
    for part in parts {
        let path = world.path(part);
        let before = path.metadata().unwrap().permissions();
        for more in [0o020, 0o002] {
            set_mode(&path, before.mode() & 0o7777 | more);
            assert_refused(&world, part, "chmod go-w");
        }
        fs::set_permissions(&path, before).unwrap();
    }
    assert!(world.is_free("x"), "what is mended is used again");
}

#[test]
fn a_store_of_another_user_is_refused() {
    let (world, parts) = store();
    for part in parts {
        chown(world.path(part), Some(ANOTHER), None).unwrap();
        assert_refused(&world, part, "uid 65534");
        chown(world.path(part), Some(0), None).unwrap();
    }
    assert!(world.is_free("x"));
}

#[test]
fn a_directory_that_another_user_made_beforehand_is_refused_and_nothing_is_made_in_it() {
    let world = World::new();
    let directory = world.path("store");
    fs::create_dir(&directory).unwrap();
    chown(&directory, Some(ANOTHER), None).unwrap();
    for mode in [0o700, 0o755, 0o777] {
        set_mode(&directory, mode);
        let output = world.run(["x", "--", "echo", "ran"]);
        assert_eq!(code(&output), 78, "{output:?}");
    }
    chown(&directory, Some(0), None).unwrap();
    let sticky = world.run(["x", "--", "echo", "ran"]);
    assert_eq!(code(&sticky), 78, "{sticky:?}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}
