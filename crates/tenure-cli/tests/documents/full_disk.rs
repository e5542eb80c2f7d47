//! A disk that is full.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::site::{assert_tidy, bytes, doc, done, put, refused};
use crate::world::{World, text};

/// A small file system of its own.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn below(world: &World) -> Self {
        let path = world.path("d");
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

/// Asserts that the message says there is no room, and where.
#[track_caller]
fn assert_no_space(output: &Output) {
    let said = text(&output.stderr);
    assert!(said.contains("space"), "{output:?}");
    assert!(said.contains("/d/"), "{said}");
    refused(output, 69);
}

#[test]
fn on_a_full_disk_documents_stay_as_they_were_and_nothing_is_left() {
    let world = World::new();
    let disk = SmallDisk::below(&world);
    let files = ["d/a.json", "d/b.json"];
    // The content is long enough to need room of its own.
    let before = format!("{{\"n\":1,\"text\":\"{}\"}}\n", "x".repeat(20_000));
    for name in files {
        put(&world, name, &before);
        done(&world, ["update", name, "--", "cat"]);
    }
    let run = world.run(["build", "--", "sh", "-c", "echo $TENURE_TOKEN"]);
    let token = format!("build#{}", text(&run.stdout).trim());
    disk.fill();
    let raise = ["--", "sed", "s/1/2/g"];
    for arguments in [
        &["update", "d/a.json"][..],
        &["update", "--token", &token, "d/a.json"],
        &["update", "d/a.json", "d/b.json"],
        &["update", "--create", "{\"n\":1}", "d/new.json"],
    ] {
        assert_no_space(&doc(&world, arguments.iter().copied().chain(raise)));
        for name in files {
            assert!(bytes(&world, name) == before, "{arguments:?}: {name}");
            assert!(done(&world, ["read", name]) == before, "it can be read");
        }
        assert!(!world.path("d/new.json").exists());
        assert_tidy(
            &world.path("d"),
            &["a.json", "b.json", "new.json", "filler"],
        );
    }
    disk.make_room();
    done(
        &world,
        ["update", "d/a.json", "d/b.json"].into_iter().chain(raise),
    );
    for name in files {
        assert!(bytes(&world, name) == before.replacen('1', "2", 1));
    }
    assert_tidy(&world.path("d"), &["a.json", "b.json", "new.json"]);
}

#[test]
fn a_document_on_a_full_disk_that_was_never_locked_can_be_read() {
    let world = World::new();
    let disk = SmallDisk::below(&world);
    put(&world, "d/a.json", "{\"n\":1}\n");
    disk.fill();
    assert_eq!(done(&world, ["read", "d/a.json"]), "{\"n\":1}\n");
}
