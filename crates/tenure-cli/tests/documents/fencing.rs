//! Tokens at the write: named with `--token`, or inherited from `tenure run`.

use std::process::Output;

use crate::site::{Process, bytes, doc, put, refused, write};
use crate::world::{World, code, text, until_exists};

const BEFORE: &str = "{\"n\": 0}\n";

fn with_document() -> World {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    world
}

/// A write under a token.
fn under(world: &World, token: &str, more: &[&str]) -> Output {
    let written = format!("{{\"by\": \"{token}\"}}\n");
    let arguments = ["--token", token, "a.json"].into_iter();
    write(
        world,
        written.as_bytes(),
        arguments.chain(more.iter().copied()),
    )
}

#[track_caller]
fn assert_written(world: &World, output: &Output, token: &str) {
    assert_eq!(code(output), 0, "{output:?}");
    assert_eq!(bytes(world, "a.json"), format!("{{\"by\": \"{token}\"}}\n"));
}

/// A lease on `build`, and its token.
fn lease(world: &World) -> (String, u64) {
    let lease = &world.json(["lock", "build"])["leases"][0];
    let id = lease["lease"].as_str().unwrap();
    (id.to_owned(), lease["token"].as_u64().unwrap())
}

/// Gives a lease up and takes another one: its token, which is later.
fn next_lease(world: &World, lease: &str) -> u64 {
    assert_eq!(code(&world.call(["release", lease])), 0);
    self::lease(world).1
}

#[test]
fn a_document_refuses_a_token_older_than_its_last() {
    let world = with_document();
    assert_written(&world, &under(&world, "build#7", &[]), "build#7");
    let said = refused(&under(&world, "build#6", &[]), 77);
    assert!(said.contains('7') && said.contains('6'), "{said}");
    assert_eq!(bytes(&world, "a.json"), "{\"by\": \"build#7\"}\n");
    let update = [
        "update", "--token", "build#6", "a.json", "--", "touch", "ran",
    ];
    refused(&doc(&world, update), 77);
    assert!(!world.path("ran").exists(), "its command never runs");
    assert_written(&world, &under(&world, "build#7", &[]), "build#7");
    assert_written(&world, &under(&world, "build#8", &[]), "build#8");
    refused(&under(&world, "build#7", &[]), 77);
    // A write without a token is possible, and does not make it forget.
    assert_eq!(code(&write(&world, b"{}", ["a.json"])), 0);
    refused(&under(&world, "build#7", &[]), 77);
}

#[test]
fn a_document_refuses_the_token_of_another_lock_until_it_is_rebound() {
    let world = with_document();
    assert_written(&world, &under(&world, "build#7", &[]), "build#7");
    let said = refused(&under(&world, "other#9", &[]), 76);
    assert!(
        said.contains("--rebind") && said.contains("build"),
        "{said}"
    );
    assert_eq!(bytes(&world, "a.json"), "{\"by\": \"build#7\"}\n");
    assert_written(&world, &under(&world, "other#1", &["--rebind"]), "other#1");
    refused(&under(&world, "build#8", &[]), 76);
    // Binding anew does not let an older token of the same lock through.
    assert_written(&world, &under(&world, "other#3", &[]), "other#3");
    refused(&under(&world, "other#2", &["--rebind"]), 77);
}

#[test]
fn a_document_refuses_the_token_of_the_same_name_in_another_store() {
    let world = with_document();
    assert_written(&world, &under(&world, "build#7", &[]), "build#7");
    let elsewhere = format!("file:{}", world.path("elsewhere").display());
    let more = ["--store", elsewhere.as_str()];
    refused(&under(&world, "build#8", &more), 76);
    assert_eq!(bytes(&world, "a.json"), "{\"by\": \"build#7\"}\n");
    let more = [&more[..], &["--rebind"]].concat();
    assert_written(&world, &under(&world, "build#8", &more), "build#8");
}

#[test]
fn a_named_token_is_checked_in_the_store() {
    let world = with_document();
    let (id, first) = lease(&world);
    let token = format!("build#{first}");
    assert_written(&world, &under(&world, &token, &[]), &token);
    let second = next_lease(&world, &id);
    assert!(second > first);
    // The document has not heard of the second one. The store has.
    let before = bytes(&world, "a.json");
    refused(&under(&world, &token, &[]), 77);
    assert_eq!(bytes(&world, "a.json"), before);
    let token = format!("build#{second}");
    assert_written(&world, &under(&world, &token, &[]), &token);
}

#[test]
fn a_token_that_is_fenced_while_the_command_runs_writes_nothing() {
    let world = with_document();
    let (id, first) = lease(&world);
    let token = format!("build#{first}");
    let work = "touch in; while [ ! -e go ]; do sleep 0.05; done; echo '{}'";
    let update = [
        "update", "--token", &token, "a.json", "--", "sh", "-c", work,
    ];
    let update = Process::doc(&world, update);
    until_exists(&world.path("in"));
    next_lease(&world, &id);
    put(&world, "go", "");
    refused(&update.end(), 77);
    assert_eq!(bytes(&world, "a.json"), BEFORE);
}

#[test]
fn where_the_store_is_not_there_a_named_token_is_checked_by_the_document_alone() {
    let world = with_document();
    let output = under(&world, "build#7", &[]);
    assert_written(&world, &output, "build#7");
    let said = text(&output.stderr);
    assert!(said.contains("not checked"), "{said}");
    assert!(!world.path("store").exists(), "a question makes no store");
    refused(&under(&world, "build#6", &[]), 77);
}

/// A descendant of `tenure run` that goes on after the `run` has ended, and then does something to
/// the document when told to: how that ended is in `code`.
struct Straggler {
    world: World,
}

impl Straggler {
    fn of_run(command: &str) -> Self {
        let world = with_document();
        let script = format!(
            "( while [ ! -e go ]; do sleep 0.05; done; {command} >out 2>err; echo $? >code.new; \
             mv code.new code ) </dev/null >/dev/null 2>&1 &"
        );
        let run = Process::start(
            world
                .tenure()
                .args(["run", "build", "--", "sh", "-c", &script]),
        );
        assert_eq!(code(&run.end()), 0);
        Self { world }
    }

    /// Lets it go on: its exit code, and what it said.
    fn go(&self) -> (i32, String) {
        put(&self.world, "go", "");
        self.end()
    }

    fn end(&self) -> (i32, String) {
        until_exists(&self.world.path("code"));
        let code = bytes(&self.world, "code").trim().parse().unwrap();
        (code, bytes(&self.world, "err"))
    }
}

const WRITE: &str = "echo '{\"straggler\": 1}' | \"$TENURE\" doc write a.json";

#[test]
fn inside_run_a_write_is_let_through_while_nobody_took_over() {
    let straggler = Straggler::of_run(WRITE);
    let (code, said) = straggler.go();
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(bytes(&straggler.world, "a.json"), "{\"straggler\": 1}\n");
}

#[test]
fn inside_run_a_write_of_a_fenced_holder_is_refused() {
    for command in [
        WRITE,
        "\"$TENURE\" doc update a.json -- echo '{\"straggler\": 1}'",
        "\"$TENURE\" doc read --create '{}' new.json",
    ] {
        let straggler = Straggler::of_run(command);
        assert!(
            straggler.world.is_free("build"),
            "someone else took it, and gave it back"
        );
        let (code, said) = straggler.go();
        assert_eq!(code, 77, "{command}: {said}");
        assert!(said.contains("build"), "{said}");
        assert_eq!(bytes(&straggler.world, "a.json"), BEFORE);
        assert!(!straggler.world.path("new.json").exists());
    }
}

#[test]
fn inside_run_an_update_that_is_fenced_while_its_command_runs_is_refused() {
    let wait = "touch in; while [ ! -e later ]; do sleep 0.05; done; echo 7";
    let straggler = Straggler::of_run(&format!("\"$TENURE\" doc update a.json -- sh -c '{wait}'"));
    let world = &straggler.world;
    put(world, "go", "");
    until_exists(&world.path("in"));
    assert!(
        world.is_free("build"),
        "someone else took it, and gave it back"
    );
    put(world, "later", "");
    let (code, said) = straggler.end();
    assert_eq!(code, 77, "{said}");
    assert_eq!(bytes(world, "a.json"), BEFORE);
}

#[test]
fn inside_run_with_its_store_gone_a_write_is_refused() {
    let straggler = Straggler::of_run(WRITE);
    std::fs::remove_dir_all(straggler.world.path("store")).unwrap();
    let (code, said) = straggler.go();
    assert_eq!(code, 69, "{said}");
    assert_eq!(bytes(&straggler.world, "a.json"), BEFORE);
    assert!(
        !straggler.world.path("store").exists(),
        "a question makes no store"
    );
}

#[test]
fn inside_run_a_slot_is_no_lock_and_fences_nothing() {
    let world = with_document();
    let script = format!("\"$TENURE\" run --slot heavy:2 -- true; {WRITE}");
    let run = Process::start(
        world
            .tenure()
            .args(["run", "--slot", "heavy:2", "--", "sh", "-c", &script]),
    );
    let output = run.end();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(bytes(&world, "a.json"), "{\"straggler\": 1}\n");
}
