//! Tokens at the write: named with `--token`, or inherited from `tenure run`.

use std::process::Output;

use crate::site::{Process, bytes, doc, put, refused, write};
use crate::world::{World, code, text, until_exists};

const BEFORE: &str = "{\"n\":0}\n";

fn with_document() -> World {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    world
}

/// Writes under a token.
fn under(world: &World, token: &str, more: &[&str]) -> Output {
    let written = format!("{{\"by\":\"{token}\"}}\n");
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
    assert_eq!(bytes(world, "a.json"), format!("{{\"by\":\"{token}\"}}\n"));
}

/// Takes a lease on `build`, and returns its id and token.
fn lease(world: &World) -> (String, u64) {
    lease_on(world, "build")
}

fn lease_on(world: &World, name: &str) -> (String, u64) {
    let lease = &world.json(["lock", name])["leases"][0];
    let id = lease["lease"].as_str().unwrap();
    (id.to_owned(), lease["token"].as_u64().unwrap())
}

/// Gives a lease up, takes another one, and returns its later token.
fn next_lease(world: &World, lease: &str) -> u64 {
    assert_eq!(code(&world.call(["release", lease])), 0);
    self::lease(world).1
}

/// Makes the document remember another token of its lock, as an older Tenure allowed.
fn remember(world: &World, token: u64, instead: u64) {
    let note = bytes(world, ".a.json.note");
    let other = note.replace(&token.to_string(), &instead.to_string());
    assert_ne!(other, note);
    put(world, ".a.json.note", &other);
}

/// No store has granted a token as high as this.
const NEVER_GRANTED: u64 = (1 << 53) - 1;

#[test]
fn a_document_refuses_a_token_older_than_its_last() {
    let world = with_document();
    let (id, first) = lease(&world);
    let older = format!("build#{first}");
    assert_written(&world, &under(&world, &older, &[]), &older);
    assert_written(&world, &under(&world, &older, &[]), &older);
    let second = next_lease(&world, &id);
    let newer = format!("build#{second}");
    assert_written(&world, &under(&world, &newer, &[]), &newer);
    let said = refused(&under(&world, &older, &[]), 77);
    for part in [&first.to_string(), &second.to_string(), "a.json"] {
        assert!(said.contains(part), "{said}");
    }
    let update = ["update", "--token", &older, "a.json", "--", "touch", "ran"];
    refused(&doc(&world, update), 77);
    assert!(!world.path("ran").exists(), "its command never runs");
    assert_written(&world, &under(&world, &newer, &[]), &newer);
    // A write without a token is possible, and the document still remembers the token.
    assert_eq!(code(&write(&world, b"{}", ["a.json"])), 0);
    let said = refused(&under(&world, &older, &[]), 77);
    assert!(said.contains("a.json"), "{said}");
}

#[test]
fn a_document_refuses_the_token_of_another_lock_until_it_is_rebound() {
    let world = with_document();
    let build = format!("build#{}", lease(&world).1);
    let (id, first) = lease_on(&world, "other");
    let other = format!("other#{first}");
    assert_written(&world, &under(&world, &build, &[]), &build);
    let said = refused(&under(&world, &other, &[]), 76);
    assert!(
        said.contains("--rebind") && said.contains("build"),
        "{said}"
    );
    assert_eq!(bytes(&world, "a.json"), format!("{{\"by\":\"{build}\"}}\n"));
    let rebound = under(&world, &other, &["--rebind"]);
    assert_written(&world, &rebound, &other);
    let said = text(&rebound.stderr);
    assert!(said.contains(&build), "what it overrides: {said}");
    refused(&under(&world, &build, &[]), 76);
    // Rebinding does not let an older token of that lock through.
    assert_eq!(code(&world.call(["release", &id])), 0);
    let newer = format!("other#{}", lease_on(&world, "other").1);
    let written = under(&world, &newer, &["--rebind"]);
    assert_written(&world, &written, &newer);
    assert_eq!(text(&written.stderr), "", "nothing is overridden");
    refused(&under(&world, &other, &["--rebind"]), 77);
    assert_eq!(bytes(&world, "a.json"), format!("{{\"by\":\"{newer}\"}}\n"));
}

#[test]
fn a_document_refuses_the_token_of_the_same_name_in_another_store() {
    let world = with_document();
    let here = format!("build#{}", lease(&world).1);
    assert_written(&world, &under(&world, &here, &[]), &here);
    let elsewhere = format!("file:{}", world.path("elsewhere").display());
    let more = ["--store", elsewhere.as_str()];
    let run = ["build", "--", "sh", "-c", "echo $TENURE_TOKEN"];
    let run = world.run(more.into_iter().chain(run));
    let there = format!("build#{}", text(&run.stdout).trim());
    refused(&under(&world, &there, &more), 76);
    assert_eq!(bytes(&world, "a.json"), format!("{{\"by\":\"{here}\"}}\n"));
    let more = [&more[..], &["--rebind"]].concat();
    assert_written(&world, &under(&world, &there, &more), &there);
}

#[test]
fn a_document_that_remembers_a_token_never_granted_is_mended_by_rebinding_it() {
    let world = with_document();
    let (_, newest) = lease(&world);
    let token = format!("build#{newest}");
    assert_written(&world, &under(&world, &token, &[]), &token);
    let before = bytes(&world, "a.json");
    remember(&world, newest, NEVER_GRANTED);
    let said = refused(&under(&world, &token, &[]), 77);
    let wrong = NEVER_GRANTED.to_string();
    assert!(said.contains(&wrong) && said.contains("--rebind"), "{said}");
    let update = ["--token", &token, "--rebind", "a.json", "--", "false"];
    let failed = doc(&world, ["update"].into_iter().chain(update));
    assert_eq!(code(&failed), 1, "{failed:?}");
    assert!(!text(&failed.stderr).contains(&wrong), "nothing is mended");
    assert_eq!(bytes(&world, "a.json"), before);
    refused(&under(&world, &token, &[]), 77);

    let mended = under(&world, &token, &["--rebind"]);
    assert_written(&world, &mended, &token);
    let said = text(&mended.stderr);
    assert!(
        said.contains(&wrong) && said.contains("a.json"),
        "what it overrides: {said}"
    );
    let after = under(&world, &token, &[]);
    assert_written(&world, &after, &token);
    assert_eq!(text(&after.stderr), "");
}

#[test]
fn a_named_token_is_checked_in_the_store() {
    let world = with_document();
    let (id, first) = lease(&world);
    let token = format!("build#{first}");
    assert_written(&world, &under(&world, &token, &[]), &token);
    let second = next_lease(&world, &id);
    assert!(second > first);
    // The document has not heard of the second token; the store knows it.
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

/// Asserts that neither the document nor its note is written, and that the command of an update
/// never runs.
#[track_caller]
fn assert_refused_unwritten(world: &World, store: &str, token: &str, expected: i32, part: &str) {
    for rebind in [&[][..], &["--rebind"]] {
        let more = [&["--store", store][..], rebind].concat();
        let said = refused(&under(world, token, &more), expected);
        assert!(said.contains(part), "{store}: {said}");
        let update = ["update", "--token", token, "a.json"];
        let update = update.into_iter().chain(more).chain(["--", "touch", "ran"]);
        refused(&doc(world, update), expected);
        assert!(!world.path("ran").exists(), "{store}: its command ran");
        assert_eq!(bytes(world, "a.json"), BEFORE, "{store}");
        assert!(!world.path(".a.json.note").exists(), "{store}");
    }
}

#[test]
fn nothing_is_written_under_a_token_that_its_store_cannot_be_asked_about() {
    let world = with_document();
    let token = format!("build#{}", lease(&world).1);
    put(&world, "nonsense.db", &"no database\n".repeat(1000));
    let at = |scheme: &str, path: &str| format!("{scheme}:{}", world.path(path).display());
    for (store, expected, part) in [
        (at("sqlite", "missing/tenure.db"), 69, "there is no store"),
        (at("sqlite", "missing/too/t.db"), 69, "there is no store"),
        (at("file", "missing"), 69, "there is no store"),
        (at("sqlite", "nonsense.db"), 65, "nonsense.db"),
        ("postgres://ana@127.0.0.1:1/none".into(), 69, "127.0.0.1"),
        ("memory:".into(), 66, "memory:"),
        ("sqllite:tenure.db".into(), 78, "sqllite"),
    ] {
        assert_refused_unwritten(&world, &store, &token, expected, part);
        assert!(!world.path("missing").exists(), "a question makes no store");
    }
}

#[test]
fn nothing_is_written_under_a_token_that_its_store_never_granted() {
    let world = with_document();
    let (id, first) = lease(&world);
    let newest = next_lease(&world, &id).to_string();
    let store = world.store();
    for token in [first + 1, NEVER_GRANTED] {
        let token = format!("build#{token}");
        assert_refused_unwritten(&world, &store, &token, 77, &newest);
    }
    let token = format!("build#{newest}");
    for other in ["sqlite", "file"] {
        let store = format!(
            "{other}:{}",
            world.path(&format!("other.{other}")).display()
        );
        let made = world.run(["--store", &store, "x", "--", "true"]);
        assert_eq!(code(&made), 0, "{made:?}");
        assert_refused_unwritten(&world, &store, &token, 66, "name:build");
    }
}

/// A descendant of `tenure run` that goes on after the `run` has ended, and then works on the
/// document when it is told to. Its exit code is in `code`.
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

    /// Lets the straggler go on, and returns its exit code and its messages.
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

const WRITE: &str = "echo '{\"straggler\":1}' | \"$TENURE\" doc write a.json";

#[test]
fn inside_run_a_write_is_let_through_while_nobody_took_over() {
    let straggler = Straggler::of_run(WRITE);
    let (code, said) = straggler.go();
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(bytes(&straggler.world, "a.json"), "{\"straggler\":1}\n");
}

#[test]
fn inside_run_a_write_of_a_fenced_holder_is_refused() {
    for command in [
        WRITE,
        "\"$TENURE\" doc update a.json -- echo '{\"straggler\":1}'",
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
    assert_eq!(bytes(&world, "a.json"), "{\"straggler\":1}\n");
}
