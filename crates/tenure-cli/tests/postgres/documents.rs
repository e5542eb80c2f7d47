//! Documents written under locks of the database.

use std::fs;
use std::process::Output;

use crate::process::{TELL, token};
use crate::scene::Scene;
use crate::world::{World, code, text};

/// Returns `TENURE_LEASES` as a command under `run` gets it.
fn leases(world: &World) -> String {
    let output = world.run(["x", "--", "sh", "-c", "echo \"$TENURE_LEASES\""]);
    assert_eq!(code(&output), 0, "{output:?}");
    text(&output.stdout)
}

fn update_under(world: &World, leases: &str) -> Output {
    let mut command = world.tenure();
    command.env("TENURE_LEASES", leases);
    command.args(["doc", "update", "a.json", "--", "echo", "[2]"]);
    command.output().unwrap()
}

#[test]
fn under_a_run_a_document_is_written() {
    let scene = Scene::new();
    let world = &scene.world;
    let script = "echo '[1]' | \"$TENURE\" doc write a.json";
    let output = world.run(["x", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(fs::read_to_string(world.path("a.json")).unwrap(), "[1]\n");
}

#[test]
fn the_late_write_of_a_run_that_lost_its_lock_is_refused() {
    let scene = Scene::new();
    let world = &scene.world;
    fs::write(world.path("a.json"), "[1]").unwrap();
    let old = leases(world);
    assert_eq!(code(&update_under(world, &old)), 0, "nobody took over yet");
    leases(world);
    let output = update_under(world, &old);
    assert_eq!(code(&output), 77, "{output:?}");
    assert!(
        text(&output.stderr).contains("of name:x is fenced"),
        "{output:?}"
    );
}

#[test]
fn without_the_server_of_the_run_nothing_is_written() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    fs::write(cut.path("a.json"), "[1]").unwrap();
    let old = leases(&cut);
    proxy.refuse();
    proxy.cut();
    let output = update_under(&cut, &old);
    assert_eq!(code(&output), 69, "{output:?}");
    assert_eq!(fs::read_to_string(cut.path("a.json")).unwrap(), "[1]");
}

/// Writes a document under a token of `x` in a store.
fn write(world: &World, store: &str, token: u64) -> Output {
    let mut command = world.tenure();
    let token = format!("x#{token}");
    command.args([
        "doc", "write", "--store", store, "--token", &token, "a.json",
    ]);
    fs::write(world.path("new.json"), "[1]").unwrap();
    command.stdin(fs::File::open(world.path("new.json")).unwrap());
    command.output().unwrap()
}

#[test]
fn nothing_is_written_under_a_token_that_its_server_cannot_be_asked_about() {
    let (scene, other) = (Scene::new(), Scene::new());
    let world = &scene.world;
    let (proxy, cut) = scene.behind_proxy();
    let newest = token(&world.run(["x"].into_iter().chain(TELL)));
    proxy.refuse();
    proxy.cut();
    for (store, token, expected, part) in [
        (cut.store(), newest, 69, "127.0.0.1"),
        (other.world.store(), newest, 66, "name:x"),
        (world.store(), newest + 1, 77, "never granted"),
    ] {
        let output = write(world, &store, token);
        assert_eq!(code(&output), expected, "{output:?}");
        assert!(text(&output.stderr).contains(part), "{output:?}");
        assert!(!world.path("a.json").exists());
    }
    assert_eq!(code(&write(world, &world.store(), newest)), 0);
}

#[test]
fn a_token_is_good_however_the_address_is_spelled() {
    let scene = Scene::new();
    let world = &scene.world;
    let token = token(&world.run(["x"].into_iter().chain(TELL)));
    let write = |store: &str| write(world, store, token);
    let store = world.store();
    for store in [
        store.clone(),
        store.replacen("postgres://", "postgresql://", 1),
        store.replace("?lease_ttl=3s", "?sslmode=disable"),
    ] {
        let output = write(&store);
        assert_eq!(code(&output), 0, "{store}: {output:?}");
    }
}
