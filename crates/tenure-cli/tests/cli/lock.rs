//! `tenure lock`.

use std::process::Stdio;

use serde_json::Value;

use crate::holder::Holder;
use crate::world::{World, code, json, signal, text, until};

#[test]
fn a_lock_outlives_its_process_and_prints_only_its_lease() {
    let world = World::new();
    let output = world.call(["lock", "x"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!world.is_free("x"));
    assert_eq!(world.json(["ls"])["held"][0]["lease"], said.trim());
    assert_eq!(code(&world.call(["release", said.trim()])), 0);
    assert!(world.is_free("x"));
}

#[test]
fn a_lock_says_everything_with_json() {
    let world = World::new();
    let document = world.json([
        "lock",
        "x",
        "--ttl",
        "1h",
        "--owner",
        "agent:7",
        "--purpose",
        "why",
        "--meta",
        "{\"a\":1}",
    ]);
    assert_eq!(document.as_object().unwrap().len(), 1, "{document}");
    let leases = document["leases"].as_array().unwrap();
    let lease = &leases[0];
    let fields: Vec<_> = lease
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let contract = "lease resource mode owner session token acquired_at expires_at heartbeat_at \
                    binding state pid host command purpose metadata";
    assert_eq!(fields, contract.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        (&lease["binding"], &lease["state"], &lease["owner"]),
        (&"lease".into(), &"held".into(), &"agent:7".into())
    );
    assert_eq!(
        (&lease["purpose"], &lease["metadata"]["a"]),
        (&"why".into(), &1.into())
    );
    assert!(lease["expires_at"].is_string() && lease["token"].as_u64().unwrap() > 0);
    assert_eq!(world.json(["ls"])["held"][0], *lease);
}

#[test]
fn several_are_printed_in_the_order_they_are_taken() {
    let world = World::new();
    let output = world.call(["lock", "b", "project:a=read", "a"]);
    let said = text(&output.stdout);
    let held = world.json(["ls"]);
    let held = held["held"].as_array().unwrap();
    let resource = |id: &str| {
        let lease = held.iter().find(|lease| lease["lease"] == id).unwrap();
        lease["resource"].as_str().unwrap().to_owned()
    };
    let printed: Vec<String> = said.lines().map(resource).collect();
    assert_eq!(printed, ["project:a", "name:a", "name:b"]);
}

#[test]
fn busy_names_the_lease_in_the_way_and_when_it_ends() {
    let world = World::new();
    let lease = world.lock([
        "x",
        "--owner",
        "ana@desk",
        "--ttl",
        "1h",
        "--purpose",
        "deploy",
    ]);
    let output = world.call(["lock", "x", "--no-wait"]);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    for part in [
        "name:x is held (write) by ana@desk for ",
        &format!("lease {lease}"),
        "\"tenure lock x --owner ana@desk --ttl 1h --purpose deploy\"",
        "purpose: deploy, at most 59m 5",
        "more unless it is renewed",
        "tenure ls",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert!(!said.contains("run is gone"), "{said}");
    let output = world.call(["lock", "x", "--no-wait", "--json"]);
    let error = &json(&output.stdout)["error"];
    assert_eq!(
        (&error["kind"], &error["holders"][0]["lease"]),
        (&"busy".into(), &lease.into())
    );
}

#[test]
fn a_wait_tells_who_is_in_the_way_and_ends_with_the_release() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["--purpose", "nightly", "x"]);
    let mut command = world.tenure();
    command.args(["lock", "x", "--wait", "30s"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiter = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(waiter.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    for part in [
        "waiting for name:x (write), 1.",
        " of 30s",
        "purpose: nightly",
        "place 1",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    holder.let_go();
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn a_signal_while_waiting_ends_with_130_and_leaves_nothing_behind() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let world = World::new();
        let lease = world.lock(["b"]);
        let mut command = world.tenure();
        command.args(["lock", "a", "b", "--wait", "60s"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let waiter = command.spawn().unwrap();
        world.until_waiting(1, waiter.id());
        signal(waiter.id(), number);
        let output = waiter.wait_with_output().unwrap();
        assert_eq!(code(&output), 130, "{output:?}");
        assert!(text(&output.stderr).contains("interrupted while waiting for name:"));
        assert!(output.stdout.is_empty());
        let listing = world.json(["ls"]);
        assert_eq!(listing["held"].as_array().unwrap().len(), 1, "{listing}");
        assert_eq!(listing["waiting"], Value::Array(vec![]));
        assert_eq!(code(&world.call(["release", &lease])), 0);
        assert!(world.is_free("a") && world.is_free("b"));
    }
}

#[test]
fn a_killed_waiter_leaves_nothing_behind() {
    let world = World::new();
    let lease = world.lock(["b"]);
    let mut command = world.tenure();
    command.args(["lock", "a", "b", "--wait", "60s"]);
    let mut waiter = command.stderr(Stdio::null()).spawn().unwrap();
    world.until_waiting(1, waiter.id());
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    assert_eq!(code(&world.call(["release", &lease])), 0);
    until("both are free", || world.is_free("a") && world.is_free("b"));
}

#[test]
fn a_set_keeps_its_full_time_although_one_of_it_was_busy_for_long() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["b"]);
    let mut command = world.tenure();
    command.args(["lock", "a", "b", "--ttl", "2s", "--wait", "60s", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let waiter = command.spawn().unwrap();
    world.until_waiting(1, waiter.id());
    // The wait exceeds the time and the grace of the lease on `a`, if they ran already.
    let waited = world.run(["--wait", "5s", "a", "--", "true"]);
    assert_eq!(
        code(&waited),
        75,
        "nobody takes over what is not yet complete"
    );
    holder.let_go();
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let leases = json(&output.stdout);
    let leases = leases["leases"].as_array().unwrap();
    let field = |index: usize, name: &str| leases[index][name].as_str().unwrap().to_owned();
    assert_eq!(field(0, "expires_at"), field(1, "expires_at"));
    assert!(field(0, "expires_at") > field(1, "acquired_at"));
}

#[test]
fn asked_again_under_the_same_key_it_is_the_same_lease() {
    let world = World::new();
    let first = world.lock(["x", "--key", "k1"]);
    assert_eq!(world.lock(["x", "--key", "k1"]), first);
    let other = world.call(["lock", "y", "--key", "k1", "--no-wait"]);
    assert_eq!(code(&other), 76, "{other:?}");
    let said = text(&other.stderr);
    assert!(
        said.contains("k1") && said.ends_with("\n  use another key\n"),
        "{said}"
    );
    let another = world.lock(["z", "--key", "k1", "--owner", "someone else"]);
    assert_ne!(another, first, "every owner has keys of its own");
    assert_eq!(code(&world.call(["release", &first])), 0);
    let finished = world.call(["lock", "x", "--key", "k1", "--no-wait"]);
    assert_eq!(code(&finished), 76, "{finished:?}");
    assert!(world.is_free("x") && world.is_free("y"));
}

#[test]
fn inside_a_run_its_locks_count() {
    let world = World::new();
    for name in ["a", "b"] {
        let inner = format!("\"$TENURE\" lock {name} --wait 60s");
        let output = world.run(["b", "--", "sh", "-c", &inner]);
        assert_eq!(code(&output), 76, "{output:?}");
        assert!(text(&output.stderr).contains("name:b"), "{output:?}");
    }
    let output = world.run(["b", "--", "sh", "-c", "\"$TENURE\" lock c"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(world.is_free("b") && !world.is_free("c"));
}

#[test]
fn kernel_locks_keep_no_leases_and_say_so() {
    let world = World::file();
    for arguments in [
        &["lock", "x"][..],
        &["renew", "l1"],
        &["release", "l1"],
        &["upgrade", "l1"],
        &["downgrade", "l1"],
        &["recover"],
        &["break", "l1", "--reason", "stuck", "--yes"],
        &["audit"],
    ] {
        let output = world.call(arguments.iter().copied());
        assert_eq!(code(&output), 78, "{arguments:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&world.store()), "{arguments:?}: {said}");
        assert!(said.contains("sqlite:"), "{arguments:?}: {said}");
        assert!(said.contains(&format!("`{}`", arguments[0])), "{said}");
        let output = world
            .tenure()
            .args(arguments)
            .arg("--json")
            .output()
            .unwrap();
        assert_eq!(json(&output.stdout)["error"]["kind"], "configuration");
    }
    assert!(world.is_free("x"));
}

#[test]
fn a_lease_that_cannot_be_told_to_anyone_is_not_kept() {
    let world = World::new();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = world.tenure();
    command.args(["lock", "untold"]).stdout(full.unwrap());
    assert!(!command.status().unwrap().success());
    assert!(world.is_free("untold"));
}

#[test]
fn a_slot_is_not_among_the_locks() {
    let world = World::new();
    for words in [
        &["lock", "slot:build"][..],
        &["run", "slot:build", "--", "true"],
    ] {
        let output = world.call(words.iter().copied());
        assert_eq!(code(&output), 2, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("--slot build:N"), "{said}");
    }
}
