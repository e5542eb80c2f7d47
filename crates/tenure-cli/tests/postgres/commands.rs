//! Every command of the contract, once, on a real server.

use std::time::Duration;

use tenure_testkit::postgres::Proxy;

use crate::process::{TELL, field, timed, token};
use crate::scene::{Scene, TTL, lease_of};
use crate::world::{World, code, json, text};

#[test]
fn run_takes_the_lock_tells_the_command_and_gives_it_back() {
    let scene = Scene::new();
    let world = &scene.world;
    let script = "echo $TENURE_STORE; echo $TENURE_RESOURCE; \"$TENURE\" ls --json";
    let output = world.run(["--purpose", "nightly", "x", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{output:?}");
    let told = text(&output.stdout);
    let mut lines = told.lines();
    assert_eq!(
        lines.next(),
        Some(&*world.store()),
        "it must be able to connect"
    );
    assert_eq!(lines.next(), Some("name:x"));
    let listing = json(lines.next().unwrap().as_bytes());
    let lease = &listing["held"][0];
    assert_eq!(
        (&lease["binding"], &lease["purpose"]),
        (&"lease".into(), &"nightly".into())
    );
    assert!(!lease["expires_at"].is_null(), "{lease}");
    assert_eq!(world.json(["ls"])["held"], serde_json::json!([]));
}

/// The thirteen statements include the proof that no pooler shares sessions, and the look for a
/// hold of another run.
#[test]
fn a_run_asks_the_server_thirteen_times_on_two_connections() {
    let scene = Scene::new();
    assert_eq!(code(&scene.world.run(["x", "--", "true"])), 0);
    let proxy = Proxy::before(&scene.database);
    // The leases here last long enough not to be renewed meanwhile.
    let world = World::at(&proxy.url_through(&scene.database));
    assert_eq!(code(&world.run(["x", "--", "true"])), 0);
    let asked = proxy.answered();
    let (connections, statements) = (asked.connections(), asked.statements());
    assert_eq!(connections, 2);
    assert!((8..=13).contains(&statements), "{statements} statements");
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    let scene = Scene::new();
    let world = &scene.world;
    assert_eq!(code(&world.run(["x", "--", "sh", "-c", "exit 7"])), 7);
    assert_eq!(code(&world.run(["x", "--", "no-such-command"])), 127);
    assert!(world.is_free("x"));
}

#[test]
fn tokens_only_go_up() {
    let scene = Scene::new();
    let world = &scene.world;
    let take = || token(&world.run(["x"].into_iter().chain(TELL)));
    let (first, second) = (take(), take());
    assert!(second > first, "{first} {second}");
    assert_eq!(code(&world.call(["check", "x", &second.to_string()])), 0);
    assert_eq!(code(&world.call(["check", "x", &first.to_string()])), 77);
}

#[test]
fn a_lease_is_taken_renewed_upgraded_downgraded_and_released_by_its_id() {
    let scene = Scene::new();
    let world = &scene.world;
    let lease = world.lock([
        "--ttl",
        "1h",
        "--owner",
        "ana",
        "--mode",
        "upgradeable",
        "x",
    ]);
    let renewed = world.json(["renew", &lease, "--ttl", "2h"]);
    assert_eq!(renewed["leases"][0]["lease"], *lease);
    let output = world.call(["upgrade", &lease]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(lease_of(world, "x")["mode"], "write");
    assert_eq!(code(&world.call(["downgrade", &lease])), 0);
    assert_eq!(lease_of(world, "x")["mode"], "upgradeable");
    let foreign = world.call(["release", &lease, "--owner", "bo"]);
    assert_eq!(code(&foreign), 77, "{foreign:?}");
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert_eq!(code(&world.call(["release", &lease])), 77, "it is over");
    assert_eq!(code(&world.call(["release", "dbx9qvvmhr4nq6tx"])), 66);
}

#[test]
fn a_lease_that_ran_out_is_taken_over_and_its_holder_is_refused() {
    let scene = Scene::new();
    let world = &scene.world;
    let lease = world.lock(["--ttl", "1s", "x"]);
    let token = token(&world.run(["--wait", "20s", "x"].into_iter().chain(TELL)));
    assert!(token > 0);
    for command in ["renew", "release"] {
        let output = world.call([command, &lease]);
        assert_eq!(code(&output), 77, "{output:?}");
    }
}

#[test]
fn asked_again_under_a_key_the_same_lease_comes_back() {
    let scene = Scene::new();
    let world = &scene.world;
    let lock = || world.lock(["--key", "k1", "--ttl", "1h", "x"]);
    assert_eq!(lock(), lock());
    let other = world.call(["lock", "--key", "k1", "--ttl", "1h", "y"]);
    assert_eq!(code(&other), 76, "{other:?}");
}

#[test]
fn a_set_is_taken_whole_or_not_at_all() {
    let scene = Scene::new();
    let world = &scene.world;
    let held = world.lock(["--ttl", "1h", "b"]);
    let output = world.call(["lock", "--wait", "3s", "a", "b", "c"]);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(text(&output.stderr).contains(&held), "{output:?}");
    let listing = world.json(["ls"]);
    assert_eq!(listing["held"].as_array().unwrap().len(), 1, "{listing}");
    assert_eq!(listing["waiting"], serde_json::json!([]));
}

#[test]
fn what_is_stale_is_recovered_and_the_record_says_so() {
    let scene = Scene::new();
    let world = &scene.world;
    let lease = world.lock(["--ttl", "1s", "x"]);
    crate::world::until("it is stale", || {
        let found = world.json(["recover", "--dry-run"]);
        found["leases"][0]["recoverable"] == true
    });
    let found = world.json(["recover"]);
    assert_eq!(found["leases"][0]["lease"], *lease, "{found}");
    assert_eq!(found["leases"][0]["recovered"], true, "{found}");
    let entries = world.json(["audit", "--resource", "x"]);
    let entries = entries["entries"].as_array().unwrap().clone();
    let actions: Vec<String> = entries.iter().map(|entry| field(entry, "action")).collect();
    assert_eq!(actions, ["acquire", "recover"]);
}

#[test]
fn who_waits_and_why_is_shown() {
    let scene = Scene::new();
    let world = &scene.world;
    let held = world.lock(["--ttl", "1h", "--owner", "ana", "x"]);
    let next = crate::process::Process::in_line(world, "x", "next");
    let listing = world.json(["ls", "x"]);
    let waiting = &listing["waiting"][0];
    assert_eq!(
        waiting["blocked_by"],
        serde_json::json!([held]),
        "{listing}"
    );
    assert_eq!(waiting["position"], 1);
    assert_eq!(code(&world.call(["release", &held])), 0);
    next.token();
}

#[test]
fn a_slot_is_counted_on_this_machine_whatever_the_store() {
    let scene = Scene::new();
    let world = &scene.world;
    let script = "\"$TENURE\" ls slot --json";
    let output = world.run(["--slot", "build:1", "x", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{output:?}");
    let listing = json(&output.stdout);
    assert_eq!(listing["held"][0]["resource"], "slot:build");
    assert_eq!(
        listing["held"][0]["binding"], "session",
        "it is in another store"
    );
    assert!(world.path("home/.local/state/tenure/slots.db").exists());
}

#[test]
fn doctor_says_which_store_and_proves_that_it_locks() {
    let scene = Scene::new();
    let world = &scene.world;
    let output = world.call(["doctor", "--json"]);
    let document = json(&output.stdout);
    let checks = document["checks"].as_array().unwrap();
    let bad: Vec<_> = checks.iter().filter(|check| check["ok"] != true).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(code(&output), 0);
    assert!(field(&document, "store").starts_with("postgres://postgres@"));
    let names: Vec<String> = checks.iter().map(|check| field(check, "name")).collect();
    for name in [
        "server",
        "clock",
        "pooler",
        "permissions",
        "schema",
        "connections",
        "exclusion",
    ] {
        assert!(
            names.iter().any(|known| known == name),
            "{name} is not in {names:?}"
        );
    }
}

#[test]
fn a_nested_run_knows_what_the_outer_one_holds() {
    let scene = Scene::new();
    let world = &scene.world;
    let inner = |flags: &str| format!("\"$TENURE\" run {flags} x -- true");
    let again = world.run(["x", "--", "sh", "-c", &inner("--no-wait")]);
    assert_eq!(code(&again), 76, "{again:?}");
    let reused = world.run(["x", "--", "sh", "-c", &inner("--reuse")]);
    assert_eq!(code(&reused), 0, "{reused:?}");
}

#[test]
fn what_fails_for_a_moment_is_tried_as_often_as_the_settings_say_and_then_told() {
    let scene = Scene::new();
    let world = &scene.world;
    // Each try fails for the moment, after it has waited for the row for a sixth of the lease.
    let lease = world.lock(["x"]);
    let mut psql = scene.database.session();
    psql.run("begin");
    psql.run("select * from tenure.resources for update");
    let renew = |variables: &[(&str, &str)]| {
        let mut command = world.tenure();
        command.envs(variables.iter().copied());
        let (output, took) = timed(|| command.args(["renew", &lease]).output().unwrap());
        assert_eq!(code(&output), 69, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("lock timeout"), "{said}");
        (said, took)
    };
    for (variables, tries) in [(&[][..], 3), (&[("TENURE_RETRY_MAX_ATTEMPTS", "5")], 5)] {
        let (said, took) = renew(variables);
        let told = format!("too many retries: it failed {tries} times, the last time with");
        assert!(said.contains(&told), "{said}");
        assert!(took >= TTL / 6 * tries, "{took:?}");
    }
    let (said, _) = renew(&[("TENURE_RETRY_MAX_ATTEMPTS", "1")]);
    assert!(!said.contains("too many retries"), "{said}");
    let delay = ("TENURE_RETRY_INITIAL_DELAY_MS", "2000");
    let (_, took) = renew(&[("TENURE_RETRY_MAX_ATTEMPTS", "2"), delay]);
    // Half of the delay is random.
    assert!(took >= Duration::from_secs(1), "{took:?}");
}
