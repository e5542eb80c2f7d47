//! A live writer in the middle of its write, and other commands meanwhile.

use std::fs;

use crate::killed_at::Victim;
use crate::site::{Process, assert_tidy, bytes, doc, done, names, put, refused};
use crate::world::{World, until_exists};

const BEFORE: &str = "{\"n\":1}\n";

#[test]
fn clean_never_removes_what_a_live_writer_uses() {
    let world = World::new();
    let place = Victim {
        world: &world,
        before: |world, directory| put(world, &format!("{directory}/a.json"), BEFORE),
        arguments: &["doc", "update", "a.json", "--", "sed", "s/1/2/"],
    };
    let points = place.points();
    let is_rename = |line: &str| line.starts_with("rename") && line.contains("a.json\"");
    let rename = points
        .iter()
        .position(|point| is_rename(&point.line))
        .unwrap();
    // The temporary file of the writer is complete, and is renamed next.
    let (directory, writer) = place.stop(rename - 1, &points[rename - 1]);
    let name = format!("{directory}/a.json");
    let paused = || names(&world.path(&directory));
    let before = paused();
    assert!(
        before.iter().any(|name| name.ends_with(".tmp")),
        "{before:?}"
    );
    refused(
        &doc(&world, ["clean", "--yes", "--wait", "200ms", &name]),
        75,
    );
    assert_eq!(paused(), before);
    writer.go_on();
    assert_eq!(bytes(&world, &name), "{\"n\":2}\n");
    assert_tidy(&world.path(&directory), &["a.json"]);
}

#[test]
fn a_writer_whose_lock_file_was_removed_does_not_write_over_the_next_one() {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    let work = "echo '{\"n\":100}'; touch in; while [ ! -e go ]; do sleep 0.05; done";
    let first = Process::doc(&world, ["update", "a.json", "--", "sh", "-c", work]);
    until_exists(&world.path("in"));
    fs::remove_file(world.path(".a.json.lock")).unwrap();
    done(
        &world,
        ["update", "--no-wait", "a.json", "--", "sed", "s/1/2/"],
    );
    put(&world, "go", "");
    let said = refused(&first.end(), 79);
    assert!(said.contains(".a.json.lock"), "{said}");
    assert_eq!(bytes(&world, "a.json"), "{\"n\":2}\n");
    assert_tidy(&world.path(""), &["a.json", "in", "go"]);
}
