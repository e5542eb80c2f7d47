//! `tenure run --slot`.

use std::process::Stdio;

use serde_json::Value;

use crate::holder::Holder;
use crate::world::{World, code, json, signal_group, text, until};

fn slots(world: &World) -> String {
    let path = world.path("home/.local/state/tenure/slots.db");
    format!("sqlite:{}", path.display())
}

/// Returns the listing of the store of slots.
fn listing(world: &World) -> Value {
    world.json(["ls", "--store", &slots(world)])
}

#[test]
fn so_many_at_a_time_and_no_more_whatever_the_store() {
    for world in World::each() {
        let mut first = Holder::start(&world, ["--slot", "build:2"]);
        let _second = Holder::start(&world, ["--slot", "build:2"]);
        let third = world.run(["--slot", "build:2", "--no-wait", "--", "true"]);
        assert_eq!(code(&third), 75, "{third:?}");
        let said = text(&third.stderr);
        let start = "tenure: no place in slot:build is free: held by ana@";
        assert!(said.starts_with(start), "{said}");
        assert!(
            said.contains("\n  and held by ana@"),
            "both are named: {said}"
        );
        assert!(
            said.ends_with("look with: tenure ls slot:build\n"),
            "{said}"
        );
        let other = world.run(["--slot", "test:1", "--no-wait", "--", "true"]);
        assert_eq!(code(&other), 0, "another name is another count: {other:?}");
        let own = world.run(["--slot", "build:3", "--no-wait", "--", "true"]);
        assert_eq!(code(&own), 0, "each has its own number: {own:?}");
        first.let_go();
        assert_eq!(first.code(), 0);
        let third = world.run(["--slot", "build:2", "--no-wait", "--", "true"]);
        assert_eq!(code(&third), 0, "{third:?}");
    }
}

#[test]
fn ls_shows_the_slots_when_asked_for_them_and_the_locks_otherwise() {
    for world in World::each() {
        assert_eq!(world.json(["ls", "slot"])["held"], serde_json::json!([]));
        assert!(!world.path("home").exists(), "looking makes nothing");
        let _build = Holder::start(&world, ["--slot", "build:2", "x"]);
        let _test = Holder::start(&world, ["--slot", "test:1"]);
        let held = |arguments: &[&str]| {
            let listing = world.json(arguments.iter().copied());
            let held = listing["held"].as_array().unwrap().iter();
            let held = held.map(|lease| lease["resource"].as_str().unwrap().to_owned());
            held.collect::<Vec<_>>()
        };
        assert_eq!(held(&["ls", "slot"]), ["slot:build", "slot:test"]);
        assert_eq!(held(&["ls", "slot:"]), ["slot:build", "slot:test"]);
        assert_eq!(held(&["ls", "slot:test"]), ["slot:test"]);
        assert_eq!(held(&["ls"]), ["name:x"]);
        let elsewhere = format!("file:{}", world.path("other").display());
        let asked = ["ls", "slot:build", "--store", &elsewhere];
        assert_eq!(held(&asked), ["slot:build"], "whatever the store");
        let table = text(&world.call(["ls", "slot:build"]).stdout);
        assert!(table.contains("slot:build") && !table.contains("slot:test"));
    }
}

#[test]
fn a_page_of_slots_goes_on_where_it_ended() {
    let world = World::new();
    let _holders = ["a:1", "b:1"].map(|slot| Holder::start(&world, ["--slot", slot]));
    let first = world.json(["ls", "slot", "--limit", "1"]);
    assert_eq!(first["held"][0]["resource"], "slot:a");
    let next = first["next"].as_str().unwrap();
    let second = world.json(["ls", "slot", "--after", next]);
    assert_eq!(second["held"].as_array().unwrap().len(), 1, "{second}");
    assert_eq!(second["held"][0]["resource"], "slot:b");
}

#[test]
fn the_lease_of_a_slot_is_broken_by_its_id_alone() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["--slot", "build:1"]);
    let listing = world.json(["ls", "slot:build"]);
    let lease = listing["held"][0]["lease"].as_str().unwrap();
    let broken = world.call(["break", lease, "--reason", "it hangs", "--yes"]);
    assert_eq!(code(&broken), 0, "{broken:?}");
    assert_eq!(holder.code(), 79);
    let unknown = world.call(["break", "nosuch", "--reason", "it hangs", "--yes"]);
    assert_eq!(code(&unknown), 66, "{unknown:?}");
    let said = text(&unknown.stderr);
    assert!(said.contains(&world.store()), "{said}");
}

#[test]
fn a_slot_alone_leaves_the_store_of_the_locks_alone() {
    let world = World::new();
    assert_eq!(code(&world.run(["--slot", "build:1", "--", "true"])), 0);
    assert!(!world.path("store").exists());
}

#[test]
fn the_command_is_told_of_its_slot_before_its_locks() {
    let world = World::new();
    let script = "echo $TENURE_STORE; echo $TENURE_RESOURCE; echo $TENURE_LEASE; \
                  echo $TENURE_TOKEN; printenv TENURE_LEASES";
    let output = world.run(["--slot", "build:2", "x", "--", "sh", "-c", script]);
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], world.store());
    assert_eq!(lines[1], "slot:build,name:x");
    let leases = json(lines[4].as_bytes());
    let leases = leases["leases"].as_array().unwrap();
    let joined = |field: &str| {
        let fields = leases
            .iter()
            .map(|lease| lease[field].to_string().replace('"', ""));
        fields.collect::<Vec<_>>().join(",")
    };
    assert_eq!(
        (lines[2], lines[3]),
        (joined("lease").as_str(), joined("token").as_str())
    );
    assert_eq!(
        joined("store"),
        format!("{},{}", slots(&world), world.store())
    );
    assert!(
        leases
            .iter()
            .all(|lease| lease["token"].as_u64().unwrap() > 0)
    );
}

#[test]
fn first_come_first_served_and_the_wait_tells_who_has_the_places() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["--slot", "build:1", "--purpose", "nightly"]);
    let mut waiters = Vec::new();
    for number in 1..=3 {
        let mut command = world.tenure();
        let script = format!("echo {number} >> order");
        command.args(["run", "--slot", "build:1", "--", "sh", "-c", &script]);
        waiters.push(command.stderr(Stdio::piped()).spawn().unwrap());
        until("it waits", || {
            listing(&world)["waiting"].as_array().unwrap().len() == number
        });
    }
    let mut line = String::new();
    let mut errors = std::io::BufReader::new(waiters[0].stderr.take().unwrap());
    std::io::BufRead::read_line(&mut errors, &mut line).unwrap();
    for part in [
        "waiting for slot:build (1 at a time), 1.",
        "held by ana@",
        "purpose: nightly",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    holder.let_go();
    for waiter in &mut waiters {
        assert!(waiter.wait().unwrap().success());
    }
    let order = std::fs::read_to_string(world.path("order")).unwrap();
    assert_eq!(order, "1\n2\n3\n");
}

#[test]
fn the_kernel_frees_the_place_of_a_holder_that_dies() {
    let world = World::new();
    let holder = Holder::start(&world, ["--slot", "build:1"]);
    holder.signal_run(libc::SIGKILL);
    let busy = world.run(["--slot", "build:1", "--no-wait", "--", "true"]);
    assert_eq!(code(&busy), 75, "its command goes on: {busy:?}");
    signal_group(holder.command, libc::SIGKILL);
    let next = world.run(["--slot", "build:1", "--wait", "30s", "--", "true"]);
    assert_eq!(code(&next), 0, "{next:?}");
}

#[test]
fn nested_use_of_the_same_slot_is_one_place() {
    let world = World::new();
    let inner = "\"$TENURE\" run --slot build:1 --no-wait -- sh -c 'echo $TENURE_LEASE'; \
                 \"$TENURE\" run x -- \"$TENURE\" run --slot build:1 --no-wait -- echo deep; \
                 echo $TENURE_LEASE";
    let output = world.run(["--slot", "build:1", "--", "sh", "-c", inner]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, "deep"), "{output:?}");
    assert_eq!(lines[0], lines[2]);
}

#[test]
fn a_slot_inside_a_lock_is_refused_with_how_to_do_it() {
    for world in World::each() {
        let inner = "\"$TENURE\" run --slot build:2 -- touch ran";
        let output = world.run(["x", "--", "sh", "-c", inner]);
        assert_eq!(code(&output), 76, "{output:?}");
        let said = text(&output.stderr);
        for part in [
            "slot:build",
            "name:x",
            "take the slot first",
            "--slot build:2",
        ] {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
        assert!(!world.path("ran").exists());
        let other = "\"$TENURE\" run --slot build:2 --store \"file:$PWD/other\" -- true";
        let output = world.run(["x", "--", "sh", "-c", other]);
        assert_eq!(
            code(&output),
            76,
            "whatever store the lock is in: {output:?}"
        );
    }
}

#[test]
fn a_lock_that_is_over_does_not_keep_a_slot_away() {
    let world = World::new();
    let output = world.run(["x", "--", "sh", "-c", "printenv TENURE_LEASES"]);
    let mut later = world.tenure();
    later.env("TENURE_LEASES", text(&output.stdout).trim());
    let later = later
        .args(["run", "--slot", "build:1", "--", "true"])
        .output();
    assert_eq!(code(&later.unwrap()), 0);
}

#[test]
fn locks_inside_a_slot_are_taken_whatever_order_is_set() {
    let world = World::new();
    std::fs::write(world.path("tenure.toml"), "order = ['map', 'name']\n").unwrap();
    let inner = "\"$TENURE\" run map:a -- echo inside";
    let output = world.run(["--slot", "build:1", "--", "sh", "-c", inner]);
    assert_eq!(text(&output.stdout), "inside\n", "{output:?}");
}

#[test]
fn slots_are_ordered_among_themselves() {
    let world = World::new();
    let inner = |name: &str| format!("\"$TENURE\" run --slot {name}:1 --no-wait -- true");
    let output = world.run(["--slot", "b:1", "--", "sh", "-c", &inner("a")]);
    assert_eq!(code(&output), 76, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("--slot a:1") && said.contains("holds slot:b\n"),
        "{said}"
    );
    let output = world.run(["--slot", "b:1", "--", "sh", "-c", &inner("c")]);
    assert_eq!(code(&output), 0, "{output:?}");
}

#[test]
fn slot_and_locks_are_all_or_nothing_within_one_limit() {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    let output = world.run(["--slot", "build:1", "--wait", "200ms", "x", "--", "true"]);
    assert_eq!(code(&output), 75, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("name:x was not free within 200ms"),
        "the whole limit: {said}"
    );
    let free = world.run(["--slot", "build:1", "--no-wait", "--", "true"]);
    assert_eq!(code(&free), 0, "{free:?}");
    let output = world.run([
        "--slot",
        "build:1",
        "-E",
        "9",
        "--no-wait",
        "x",
        "--",
        "true",
    ]);
    assert_eq!(code(&output), 9, "{output:?}");
}

/// Slots are counted for a user and machine, whatever the repository, so the order of a repository
/// does not apply to them.
#[test]
fn repositories_with_different_orders_share_a_slot() {
    let world = World::new();
    let inner = "mkdir other && cd other && echo \"order = ['name', 'map']\" > tenure.toml && \
                 unset TENURE_STORE TENURE_LEASES TENURE_SESSION && \"$TENURE\" run --slot build:2 -- true";
    let output = world.run(["--slot", "build:2", "--", "sh", "-c", inner]);
    assert_eq!(code(&output), 0, "{output:?}");
}
