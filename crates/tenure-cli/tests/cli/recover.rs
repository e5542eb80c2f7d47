//! `tenure recover`.

use serde_json::Value;

use crate::holder::Holder;
use crate::world::{World, code, signal_group, text, until};

fn finding(world: &World, arguments: &[&str]) -> Value {
    let findings = world.json(["recover"].into_iter().chain(arguments.iter().copied()));
    assert_eq!(findings["next"], Value::Null);
    findings["leases"][0].clone()
}

#[test]
fn nothing_stale_is_said_and_an_empty_list() {
    let world = World::new();
    let _lease = world.lock(["x"]);
    let output = world.call(["recover"]);
    assert_eq!(code(&output), 0);
    assert_eq!(text(&output.stderr), "tenure: nothing looks stale\n");
    let findings = world.json(["recover"]);
    assert_eq!(findings["leases"], Value::Array(vec![]));
}

#[test]
fn a_dry_run_explains_and_changes_nothing_and_then_it_is_recovered() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1s"]);
    until("it is stale", || {
        finding(&world, &["--dry-run"])["recoverable"] == true
    });
    let found = finding(&world, &["--dry-run"]);
    assert_eq!(
        (&found["lease"], &found["recovered"]),
        (&lease.as_str().into(), &false.into())
    );
    assert_eq!(
        (&found["expired"], &found["heartbeat_old"]),
        (&true.into(), &true.into())
    );
    assert_eq!(found["claimed_by"], Value::Null);
    let said = text(&world.call(["recover", "--dry-run"]).stdout);
    assert!(
        said.starts_with("can be recovered: name:x (write) of "),
        "{said}"
    );
    assert!(said.contains(&lease), "{said}");
    assert!(!world.json(["ls"])["held"].as_array().unwrap().is_empty());
    let output = world.call(["recover"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(said.starts_with("recovered: name:x (write) of "), "{said}");
    assert!(world.is_free("x"));
    assert_eq!(code(&world.call(["renew", &lease])), 77);
    let audit = world.json(["audit", "--resource", "x"]);
    let entries = audit["entries"].as_array().unwrap();
    assert!(
        entries.iter().any(|entry| entry["action"] == "recover"),
        "{audit}"
    );
}

#[test]
fn a_run_that_died_with_its_command_is_recovered_and_one_that_lives_is_not() {
    let world = World::new();
    let dead = Holder::start(&world, ["dead"]);
    let mut alive = Holder::start(&world, ["alive"]);
    dead.signal_run(libc::SIGKILL);
    signal_group(dead.command, libc::SIGKILL);
    until("its session is proved dead", || {
        let found = world.json(["recover"]);
        let found = found["leases"].as_array().unwrap();
        assert!(found.iter().all(|lease| lease["resource"] == "name:dead"));
        let held = world.json(["ls"]);
        let held = held["held"].as_array().unwrap().clone();
        held.iter().all(|lease| lease["resource"] == "name:alive")
    });
    assert!(world.is_free("dead") && !world.is_free("alive"));
    alive.let_go();
    assert_eq!(alive.code(), 0);
}
