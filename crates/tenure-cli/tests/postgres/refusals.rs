//! Requests that cannot be met: their exit codes and messages.

use std::net::TcpListener;

use crate::process::Process;
use crate::scene::Scene;
use crate::world::{World, code, json, text};

/// Returns a port without a listener.
fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_not_there_is_69() {
    let world = World::at(&format!("postgres://ana@127.0.0.1:{}/x", nobody()));
    let commands = [
        &["run", "--no-wait", "--json", "x", "--", "true"][..],
        &["ls", "--json"],
        &["advisory", "ls", "--json"],
    ];
    // The commands run at the same time, as those that only look wait a while for a server.
    let calls = commands.map(|command| Process::tenure(&world, command.iter().copied()));
    for call in calls {
        let output = call.end();
        assert_eq!(code(&output), 69, "{output:?}");
        assert_eq!(json(&output.stdout)["error"]["kind"], "unreachable");
    }
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
fn a_schema_that_an_ordinary_role_owns_is_78_for_a_superuser() {
    let scene = Scene::new();
    let (database, mallory) = (&scene.database, "mallory");
    database.psql(&format!(
        "CREATE ROLE {mallory} LOGIN; GRANT CREATE ON DATABASE {} TO {mallory}",
        database.name()
    ));
    let url = database.url().replacen("postgres@", "mallory@", 1);
    assert_eq!(code(&World::at(&url).call(["ls"])), 0);
    for command in [
        &["run", "x", "--", "true"][..],
        &["ls"],
        &["advisory", "run", "agent", "1", "--", "true"],
    ] {
        let output = scene.world.call(command.iter().copied());
        assert_eq!(code(&output), 78, "{command:?}: {output:?}");
        let said = text(&output.stderr);
        for word in [mallory, "superuser", "SECURITY.md"] {
            assert!(said.contains(word), "{word} is not in {said}");
        }
    }
    assert_eq!(database.psql("SELECT count(*) FROM tenure.audit"), "0");
    database.psql(&format!(
        "DROP OWNED BY {mallory} CASCADE; DROP ROLE {mallory}"
    ));
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
