//! The password of an address is given only to the server and to the command under `run`.

use std::fs;
use std::process::Output;

use tenure_testkit::postgres::{Cluster, Settings};

use crate::holder::Holder;
use crate::scene::{PASSWORD, Scene, address};
use crate::world::{World, code, text, until};

fn assert_silent(what: &str, output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        assert!(!text(stream).contains(PASSWORD), "{what}: {output:?}");
    }
}

fn ask(world: &World, arguments: &[&str]) {
    for json in [false, true] {
        let mut command = world.tenure();
        command.args(json.then_some("--json")).args(arguments);
        command.env("TENURE_LOG", "debug");
        assert_silent(&format!("{arguments:?}"), &command.output().unwrap());
    }
}

#[test]
fn nothing_that_is_printed_tells_the_password() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    let store = cut.store();
    let mut holder = Holder::start(&cut, ["x"]);
    for arguments in [
        &["ls"][..],
        &["lock", "--store", &store, "--ttl", "1h", "y"],
        &["ls"],
        &["lock", "--no-wait", "x"],
        &["run", "--wait", "100ms", "x", "--", "true"],
        &["run", "z", "--", "sh", "-c", "echo $TENURE_LEASES"],
        &["audit"],
        &["recover"],
        &["doctor"],
        &["renew", "dbx9qvvmhr4nq6tx"],
        &["check", "x", "1"],
        &["advisory", "ls"],
        &["advisory", "run", "agent", "1", "--", "true"],
    ] {
        ask(&cut, arguments);
    }
    holder.let_go();
    assert_eq!(holder.code(), 0);
    proxy.refuse();
    proxy.cut();
    let waits = &["run", "--wait", "3s", "x", "--", "true"];
    for arguments in [&["doctor"][..], &["lock", "--no-wait", "x"], waits] {
        ask(&cut, arguments);
    }
}

#[test]
fn nothing_that_cannot_be_read_tells_the_password() {
    for url in [
        format!("postgre://ana:{PASSWORD}@127.0.0.1/x"),
        format!("postgres://ana:{PASSWORD}@127.0.0.1:port/x"),
        format!("postgres://ana:{PASSWORD}@127.0.0.1/x?colour=blue"),
        format!("postgres:ana:{PASSWORD}@127.0.0.1/x"),
        format!("postgres://127.0.0.1:1/x?password={PASSWORD}"),
        format!("postgres://127.0.0.1:1/x?password=a@{PASSWORD}"),
        format!("postgres://ana:a {PASSWORD}@127.0.0.1:1/x"),
        format!("postgres://ana:a@{PASSWORD}@127.0.0.1:1/x"),
        format!("ana:{PASSWORD}@127.0.0.1:1/x"),
        format!("host=127.0.0.1 password={PASSWORD} user=ana"),
    ] {
        let world = World::at(&url);
        for arguments in [
            &["run", "--no-wait", "x", "--", "true"][..],
            &["doctor"],
            &["advisory", "run", "--no-wait", "agent", "1", "--", "true"],
        ] {
            ask(&world, arguments);
        }
    }
}

#[test]
fn the_command_line_that_is_kept_with_a_lease_does_not_tell_the_password() {
    let scene = Scene::new();
    let store = address(&scene.database.tcp_url());
    scene.world.lock(["--store", &store, "--ttl", "1h", "y"]);
    let kept = scene
        .database
        .psql("select dal_locks::text from tenure.dal_locks");
    assert!(kept.contains("tenure lock"), "{kept}");
    assert!(!kept.contains(PASSWORD), "{kept}");
}

#[test]
fn the_command_under_run_can_log_in_and_so_can_what_checks_its_token() {
    let cluster = Cluster::with(&Settings::default());
    let database = cluster.database();
    database.psql(&format!("alter role postgres password '{PASSWORD}'"));
    let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    fs::write(cluster.directory().join("data/pg_hba.conf"), rules).unwrap();
    database.psql("select pg_reload_conf()");
    let wrong = database
        .tcp_url()
        .replacen("postgres@", "postgres:wrong@", 1);
    let stranger = World::at(&wrong);
    until("the server asks for the password", || {
        code(&stranger.call(["ls"])) == 78
    });
    let world = World::at(&address(&database.tcp_url()));
    let script = "\"$TENURE\" ls && echo '[1]' | \"$TENURE\" doc write a.json";
    let output = world.run(["x", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(fs::read_to_string(world.path("a.json")).unwrap(), "[1]\n");
}
