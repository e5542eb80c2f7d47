//! What cannot be: the exit code, and what is said.

use std::net::TcpListener;

use crate::scene::Scene;
use crate::world::{World, code, json, text};

/// A port nobody listens on.
fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_not_there_is_69() {
    let world = World::at(&format!("postgres://ana@127.0.0.1:{}/x", nobody()));
    for command in [
        &["run", "x", "--", "true"][..],
        &["ls"],
        &["advisory", "ls"],
    ] {
        let output = world.call(command.iter().copied());
        assert_eq!(code(&output), 69, "{command:?}: {output:?}");
    }
    let output = world.call(["ls", "--json"]);
    assert_eq!(json(&output.stdout)["error"]["kind"], "unreachable");
}

#[test]
fn an_address_that_cannot_be_read_is_78() {
    for url in [
        "postgres://ana@127.0.0.1:port/x",
        "postgres://ana@127.0.0.1/x?colour=blue",
        "postgres://ana@127.0.0.1/x?lease_ttl=1ms",
        "mysql://ana@127.0.0.1/x",
    ] {
        let world = World::at(url);
        let output = world.call(["ls"]);
        assert_eq!(code(&output), 78, "{url}: {output:?}");
    }
}

#[test]
fn a_database_that_is_not_there_is_78() {
    let scene = Scene::new();
    let url = scene
        .world
        .store()
        .replace(scene.database.name(), "no_such_database");
    let output = World::at(&url).call(["ls"]);
    assert_eq!(code(&output), 78, "{output:?}");
    assert!(
        text(&output.stderr).contains("no_such_database"),
        "{output:?}"
    );
}

#[test]
fn a_store_is_named_by_the_option_the_variable_and_the_file() {
    let scene = Scene::new();
    let world = World::new();
    let named = scene.world.store();
    let held = scene.world.lock(["--ttl", "1h", "x"]);
    let sees_it = |mut command: std::process::Command| {
        let output = command.args(["ls", "--json"]).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(
            json(&output.stdout)["held"][0]["lease"],
            *held,
            "{output:?}"
        );
    };
    let mut by_option = world.tenure();
    by_option.args([
        "--store",
        &named.replacen("postgres://", "postgresql://", 1),
    ]);
    sees_it(by_option);
    sees_it(scene.world.tenure());
    std::fs::write(world.path("tenure.toml"), format!("store = '{named}'\n")).unwrap();
    let mut by_file = world.tenure();
    by_file.env_remove("TENURE_STORE");
    sees_it(by_file);
}
