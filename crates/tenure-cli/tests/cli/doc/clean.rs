//! `doc clean`.

use super::commands::{Worker, doc, get, put};
use crate::terminal::Terminal;
use crate::world::{World, code, text};

/// A temporary file of a writer that died before its rename.
const LEFT: &str = ".a.json.0123456789abcdef.tmp";

fn world() -> World {
    let world = World::new();
    put(&world, "a.json", "[1]");
    // The update makes the lock file, as every writer does.
    assert_eq!(code(&doc(&world, ["update", "a.json", "--", "cat"])), 0);
    put(&world, LEFT, "[2");
    world
}

#[test]
fn what_a_crashed_writer_left_is_removed_and_nothing_else() {
    let world = world();
    let removed = world.json(["doc", "clean", "--yes", "a.json"]);
    let path = world.path(LEFT);
    assert_eq!(
        removed,
        serde_json::json!({ "removed": [path], "next": null })
    );
    assert!(!path.exists());
    assert_eq!(get(&world, "a.json"), "[1]");
    assert!(
        world.path(".a.json.lock").exists(),
        "a lock file stays for good"
    );
    let output = doc(&world, ["clean", "--yes", "a.json"]);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, ""));
    assert!(
        text(&output.stderr).contains("nothing is left over"),
        "{output:?}"
    );
    assert_eq!(
        world.json(["doc", "clean", "--yes", "a.json"])["removed"],
        serde_json::json!([])
    );
}

#[test]
fn without_a_terminal_it_needs_yes() {
    let world = world();
    let output = doc(&world, ["clean", "a.json"]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(text(&output.stderr).contains("--yes"), "{output:?}");
    assert!(world.path(LEFT).exists());
}

#[test]
fn a_person_is_shown_what_goes_and_asked() {
    let world = world();
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" doc clean a.json; echo \"code $?\"\n");
    terminal.expect(LEFT);
    terminal.expect("Remove them? Type yes: ");
    terminal.press("no\n");
    terminal.expect("code 1");
    assert!(world.path(LEFT).exists());
    terminal.press("\"$TENURE\" doc clean a.json; echo \"code $?\"\n");
    terminal.expect("Type yes: ");
    terminal.press("yes\n");
    terminal.expect("code 0");
    assert!(!world.path(LEFT).exists());
}

#[test]
fn what_a_live_writer_may_use_stays() {
    let world = world();
    put(&world, "b.json", "{}");
    let worker = Worker::on(&world, "b.json");
    put(&world, ".b.json.fedcba9876543210.tmp", "");
    let output = doc(&world, ["clean", "--yes", "--no-wait", "b.json"]);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(world.path(".b.json.fedcba9876543210.tmp").exists());
    worker.let_go(&world);
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn a_temporary_file_of_a_node_program_goes_once_that_has_let_go_of_its_lock() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let (left, copy) = ("a.json.tmp.1f2e3d4c", "a.json.tmp.1");
    put(&world, left, "[2");
    put(&world, copy, "[0]");
    // A lock of proper-lockfile is fresh for ten seconds; this one is for the whole test.
    let lock = std::fs::File::open({
        std::fs::create_dir(world.path("a.json.lock")).unwrap();
        world.path("a.json.lock")
    });
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(600);
    lock.unwrap().set_modified(later).unwrap();
    let output = doc(&world, ["clean", "--yes", "--no-wait", "a.json"]);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(world.path(left).exists());
    std::fs::remove_dir(world.path("a.json.lock")).unwrap();
    // The file is found even without a lock file of ours.
    std::fs::remove_file(world.path(".a.json.lock")).unwrap();
    let output = doc(&world, ["clean", "--yes", "a.json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!world.path(left).exists() && !world.path("a.json.lock").exists());
    assert!(world.path(copy).exists(), "too short for a random number");
}

#[test]
fn a_document_that_never_was_is_66_and_gets_no_lock_file() {
    let world = World::new();
    let output = doc(&world, ["clean", "--yes", "typo.json"]);
    assert_eq!(code(&output), 66, "{output:?}");
    assert!(!world.path(".typo.json.lock").exists());
}
