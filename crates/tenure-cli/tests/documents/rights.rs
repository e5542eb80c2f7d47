//! Documents that this user may not write.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Output};

use crate::killed_at::{Victim, several};
use crate::site::{Process, bytes, done, everything, names, put, refused, write};
use crate::world::{World, code, text};

const BEFORE: &str = "{\"n\":1}\n";

/// Makes a world that other users can reach, with a directory `d` and a document in it.
fn shared(directory: u32, document: u32) -> World {
    let world = World::new();
    world.copy_of_tenure();
    fs::create_dir(world.path("d")).unwrap();
    put(&world, "d/a.json", BEFORE);
    for (name, mode) in [("", 0o755), ("d", directory), ("d/a.json", document)] {
        fs::set_permissions(world.path(name), Permissions::from_mode(mode)).unwrap();
    }
    world
}

/// Runs `tenure doc ARGUMENTS` as a user who owns nothing here.
fn as_another(world: &World, arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    world.prepare(&mut command);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(world.path("tenure")).arg("doc").args(arguments);
    Process::start(&mut command).end()
}

/// Asserts that changes are refused, that the document and everything beside it stay unchanged, and
/// that reading works.
#[track_caller]
fn assert_read_only(world: &World, call: impl Fn(&[&str]) -> Output) {
    let before = everything(&world.path("d"));
    for arguments in [
        &["update", "d/a.json", "--", "echo", "{}"][..],
        &[
            "update",
            "--compat",
            "proper-lockfile",
            "d/a.json",
            "--",
            "echo",
            "{}",
        ],
        &[
            "update", "--token", "build#1", "d/a.json", "--", "echo", "{}",
        ],
    ] {
        let said = refused(&call(arguments), 77);
        // The message names the document, or its directory.
        assert!(said.contains("/d"), "{said}");
    }
    let output = call(&["read", "d/a.json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(text(&output.stdout), BEFORE);
    assert_eq!(everything(&world.path("d")), before, "nothing is half done");
}

#[test]
fn a_read_only_document_in_a_writable_directory_is_not_changed() {
    let world = shared(0o777, 0o444);
    assert_read_only(&world, |arguments| as_another(&world, arguments));
}

#[test]
fn a_document_that_its_own_user_made_read_only_is_not_changed() {
    let world = shared(0o755, 0o444);
    for name in ["d", "d/a.json"] {
        chown(world.path(name), Some(65534), Some(65534)).unwrap();
    }
    assert_read_only(&world, |arguments| as_another(&world, arguments));
}

#[test]
fn a_writable_document_in_a_read_only_directory_is_not_changed() {
    let world = shared(0o755, 0o666);
    assert_read_only(&world, |arguments| as_another(&world, arguments));
    assert_eq!(names(&world.path("d")), ["a.json"]);
}

#[test]
fn a_document_that_others_lock_is_still_read_by_who_may_only_read() {
    let world = shared(0o755, 0o644);
    let written = write(&world, BEFORE.as_bytes(), ["d/a.json"]);
    assert_eq!(code(&written), 0, "{written:?}");
    assert_read_only(&world, |arguments| as_another(&world, arguments));
}

#[test]
fn a_document_on_a_read_only_mount_is_not_changed() {
    let world = shared(0o755, 0o644);
    let script = r#"mount --bind d d && mount -o remount,bind,ro d && exec "$@""#;
    assert_read_only(&world, |arguments| {
        let mut command = Command::new("unshare");
        world.prepare(&mut command);
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_tenure"))
            .arg("doc")
            .args(arguments);
        Process::start(&mut command).end()
    });
}

#[test]
fn who_may_only_read_does_not_take_a_live_transaction_for_a_dead_one() {
    let world = shared(0o755, 0o644);
    put(&world, "d/b.json", BEFORE);
    let update =
        "while [ ! -e stop ]; do \"$TENURE\" doc update d/a.json d/b.json -- cat || exit 1; done";
    let mut writer = Process::shell(&world, update);
    for number in 0..60 {
        let output = as_another(&world, &["read", "d/a.json"]);
        assert_eq!(code(&output), 0, "read {number}: {output:?}");
        assert_eq!(text(&output.stdout), BEFORE);
        assert!(!writer.is_over(), "{}", writer.said());
    }
    put(&world, "stop", "");
    assert_eq!(code(&writer.end()), 0);
}

/// Crashes a transaction over two documents between them, in a world that others can reach, and
/// returns the documents.
fn crashed(world: &World, before: fn(&World, &str)) -> [String; 2] {
    let place = Victim {
        world,
        before,
        arguments: &several::UPDATE,
    };
    let points = place.points();
    let is_last = |line: &str| line.starts_with("rename") && line.contains("y/b.json\"");
    let last = points
        .iter()
        .position(|point| is_last(&point.line))
        .unwrap();
    let (directory, _) = place.kill(last, &points[last]);
    let documents = ["x/a.json", "y/b.json"].map(|name| format!("{directory}/{name}"));
    let found = documents.each_ref().map(|name| bytes(world, name));
    assert_eq!(found, [several::AFTER[0], several::BEFORE[1]], "in between");
    documents
}

/// Asserts that the user of the transaction finishes it by reading, which every user then sees.
#[track_caller]
fn assert_finished_by_its_user(world: &World, documents: &[String; 2]) {
    done(world, ["read", &documents[1]]);
    for (name, after) in documents.iter().zip(several::AFTER) {
        let output = as_another(world, &["read", name]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(text(&output.stdout), after);
    }
}

#[test]
fn who_may_lock_but_not_finish_a_transaction_is_not_shown_half_of_it() {
    let world = shared(0o755, 0o644);
    let open_to_all = |world: &World, directory: &str| {
        several::before(world, directory);
        for (name, mode) in [
            ("x", 0o777),
            ("y", 0o777),
            ("x/a.json", 0o666),
            ("y/b.json", 0o666),
        ] {
            let path = world.path(directory).join(name);
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    };
    let documents = crashed(&world, open_to_all);
    let before = everything(&world.path(""));
    for name in &documents {
        for arguments in [&["read", name][..], &["update", name, "--", "cat"]] {
            let said = refused(&as_another(&world, arguments), 77);
            assert!(said.contains(".journal"), "{said}");
        }
    }
    assert_eq!(everything(&world.path("")), before, "nothing is touched");
    assert_finished_by_its_user(&world, &documents);
}

#[test]
fn who_may_not_even_lock_sees_each_document_whole_and_touches_nothing() {
    let world = shared(0o755, 0o644);
    let documents = crashed(&world, several::before);
    let before = everything(&world.path(""));
    for name in &documents {
        let output = as_another(&world, &["read", name]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(text(&output.stdout), bytes(&world, name));
    }
    assert_eq!(everything(&world.path("")), before, "nothing is touched");
    assert_finished_by_its_user(&world, &documents);
}

#[test]
fn a_document_that_may_not_be_read_is_refused() {
    let world = shared(0o755, 0o600);
    let said = refused(&as_another(&world, &["read", "d/a.json"]), 77);
    assert!(said.contains("a.json"), "{said}");
}

#[test]
fn mode_and_owner_of_a_document_stay_as_they_were() {
    let world = shared(0o755, 0o640);
    chown(world.path("d/a.json"), Some(65534), Some(65534)).unwrap();
    let written = write(&world, b"{\"n\":2}\n", ["d/a.json"]);
    assert_eq!(code(&written), 0, "{written:?}");
    assert_eq!(bytes(&world, "d/a.json"), "{\"n\":2}\n");
    let found = fs::metadata(world.path("d/a.json")).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o7777),
        (65534, 65534, 0o640)
    );
}
