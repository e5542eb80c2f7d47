//! A disk that cannot be written: by this user, at all, or because it is full.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::{assert_nothing_is_left, held, take, the_lease};
use crate::world::{World, code, is_alive, text, until};

/// Returns all files of the store but the index of the log, which every reader writes to.
fn files(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![world.path("store")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.to_string_lossy().ends_with("-shm") {
                files.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Asserts that writing is refused with a remedy, and nothing is half done.
fn assert_refused(world: &World, lease: &str, call: impl Fn(&[&str]) -> Output) {
    let before = files(world);
    for arguments in [
        &["lock", "y", "--no-wait"][..],
        &["run", "--no-wait", "y", "--", "true"],
        &["release", lease],
        &["renew", lease],
    ] {
        let output = call(arguments);
        assert_eq!(code(&output), 69, "{arguments:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("store"), "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(files(world), before, "nothing is half done");
}

#[test]
fn a_read_only_mount_is_refused_and_nothing_is_half_done() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h"]);
    let store = world.path("store").display().to_string();
    let script = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@""#;
    assert_refused(&world, &lease, |arguments| {
        let mut command = Command::new("unshare");
        world.prepare(&mut command);
        command.args(["--mount", "sh", "-c", script, "sh", &store]);
        command.arg(env!("CARGO_BIN_EXE_tenure")).args(arguments);
        command.output().unwrap()
    });
    assert_eq!(the_lease(&world)["lease"], lease.as_str());
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert_nothing_is_left(&world);
}

#[test]
fn a_user_who_may_only_read_is_refused_and_nothing_is_half_done() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h"]);
    // Every user can reach the command, and may read the store.
    let command_path = world.copy_of_tenure();
    let readable = |name: &str, mode| {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    readable("", 0o755);
    let call = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        world.prepare(&mut command);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(&command_path).args(arguments).output().unwrap()
    };
    // A store as it is made is for its owner only.
    assert_refused(&world, &lease, call);
    readable("store", 0o755);
    readable("store/sessions", 0o755);
    for entry in fs::read_dir(world.path("store")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
    assert_refused(&world, &lease, call);
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert_nothing_is_left(&world);
}

/// A small file system of its own below the store.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn below(world: &World) -> Self {
        let path = world.path("store");
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"])
            .arg(&path)
            .status();
        assert!(mounted.unwrap().success());
        Self { path }
    }

    /// Fills the file system to the last byte.
    fn fill(&self) {
        let mut file = File::create(self.path.join("filler")).unwrap();
        for size in [4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.path.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.path)
            .status();
    }
}

#[test]
fn a_full_disk_is_refused_and_afterwards_all_goes_on() {
    let world = World::new();
    let disk = SmallDisk::below(&world);
    let mut last = take(&world, "x");
    let mut holder = Holder::start(&world, ["held"]);
    disk.fill();
    // The room that is left in the log is used first.
    let mut refused = 0;
    let mut leases = Vec::new();
    for number in 0..1000 {
        let name = format!("y{number}");
        let output = world.call(["lock", &name, "--ttl", "1h", "--no-wait"]);
        match code(&output) {
            0 => leases.push(text(&output.stdout).trim().to_owned()),
            69 => {
                let said = text(&output.stderr);
                assert!(said.contains("space"), "{said}");
                assert!(output.stdout.is_empty());
                refused += 1;
            }
            _ => panic!("{output:?}"),
        }
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "the disk never got full");
    assert!(is_alive(holder.command), "what is held stays held");
    let refused = world.run(["--no-wait", "held", "--", "true"]);
    assert!(matches!(code(&refused), 69 | 75), "{refused:?}");
    disk.make_room();
    assert!(!world.is_free("held"));
    let there: Vec<_> = held(&world)
        .into_iter()
        .filter(|lease| lease["binding"] == "lease")
        .collect();
    assert_eq!(
        there.len(),
        leases.len(),
        "what was told is there, and nothing else"
    );
    for lease in leases {
        assert_eq!(code(&world.call(["release", &lease])), 0);
    }
    holder.let_go();
    assert_eq!(holder.code(), 0);
    let token = take(&world, "x");
    assert!(token > last, "{token} after {last}");
    last = token;
    // This release finds no room: the end of the session frees the lock all the same.
    let mut holder = Holder::start(&world, ["held"]);
    disk.fill();
    holder.let_go();
    holder.wait();
    disk.make_room();
    until("it is free", || world.is_free("held"));
    assert!(take(&world, "x") > last);
    Database::of(&world).assert_whole();
    assert_nothing_is_left(&world);
}
