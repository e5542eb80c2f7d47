//! `tenure run --pool`, on each store that can count.

use crate::holder::Holder;
use crate::scene::Scene;
use crate::world::{World, code, json, signal_group, text, until};

#[test]
fn so_many_hold_a_pool_at_a_time_and_no_more() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut first = Holder::start(world, ["--pool", "deploy:2"]);
    let _second = Holder::start(world, ["--pool", "deploy=2", "x"]);
    let third = world.run(["--pool", "deploy:2", "--no-wait", "--", "true"]);
    assert_eq!(code(&third), 75, "{third:?}");
    let said = text(&third.stderr);
    let start = "tenure: no place in pool:deploy is free: held by ana@";
    assert!(said.starts_with(start), "{said}");
    assert!(said.contains("\n  and held by ana@"), "{said}");
    assert!(
        said.ends_with("look with: tenure ls pool:deploy\n"),
        "{said}"
    );
    let document = world.run(["--json", "--pool", "deploy:2", "-n", "--", "true"]);
    let document = json(&document.stdout);
    assert_eq!(document["error"]["resource"], "pool:deploy", "{document}");
    let held = world.json(["ls", "pool:"])["held"].clone();
    assert_eq!(held.as_array().unwrap().len(), 2, "{held}");
    assert_eq!(world.json(["status"])["held"].as_array().unwrap().len(), 3);
    let other = world.run(["--pool", "test:1", "--no-wait", "--", "true"]);
    assert_eq!(code(&other), 0, "another name is another count: {other:?}");
    let own = world.run(["--pool", "deploy:3", "--no-wait", "--", "true"]);
    assert_eq!(code(&own), 0, "each has its own number: {own:?}");
    first.let_go();
    assert_eq!(first.code(), 0);
    let third = world.run(["--pool", "deploy:2", "--no-wait", "--", "true"]);
    assert_eq!(code(&third), 0, "{third:?}");
}

#[test]
fn a_crowd_never_has_more_places_than_the_pool() {
    let scene = Scene::new();
    let world = &scene.world;
    std::fs::create_dir(world.path("inside")).unwrap();
    let script = "for i in $(seq 12); do \"$TENURE\" run --pool deploy:3 --wait 90s -- sh -c \
                  'touch inside/$$; ls inside | wc -l >> seen; sleep 0.2; rm inside/$$' & done; wait";
    let mut crowd = std::process::Command::new("sh");
    world.prepare(&mut crowd);
    let crowd = crowd.args(["-c", script]).output().unwrap();
    assert!(crowd.stderr.iter().all(|byte| *byte != b'!'), "{crowd:?}");
    let seen = std::fs::read_to_string(world.path("seen")).unwrap();
    let seen: Vec<u32> = seen
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    assert_eq!(seen.len(), 12, "each has its turn: {crowd:?}");
    assert!(seen.iter().all(|inside| *inside <= 3), "{seen:?}");
}

#[test]
fn the_place_of_a_holder_that_dies_is_free() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["--pool", "deploy:1"]);
    let busy = world.run(["--pool", "deploy:1", "--no-wait", "--", "true"]);
    assert_eq!(code(&busy), 75, "{busy:?}");
    // On a server the command dies with its `run`; otherwise it would keep the place.
    signal_group(holder.command, libc::SIGKILL);
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    let next = world.run(["--pool", "deploy:1", "--wait", "30s", "--", "true"]);
    assert_eq!(code(&next), 0, "{next:?}");
}

#[test]
fn pool_slot_and_locks_are_taken_in_this_order_and_all_or_none() {
    let scene = Scene::new();
    let world = &scene.world;
    let script = "echo $TENURE_RESOURCE; \"$TENURE\" ls --json";
    let together = ["--slot", "build:1", "--pool", "deploy:1", "x", "--"];
    let output = world.run(together.into_iter().chain(["sh", "-c", script]));
    let said = text(&output.stdout);
    let (resources, listing) = said.split_once('\n').unwrap();
    assert_eq!(resources, "pool:deploy,slot:build,name:x");
    let held = json(listing.as_bytes())["held"].clone();
    assert_eq!(
        held[0]["session"], held[1]["session"],
        "one session: {held}"
    );
    let _holder = Holder::start(world, ["x"]);
    let output = world.run(
        ["--wait", "200ms"]
            .into_iter()
            .chain(together)
            .chain(["true"]),
    );
    assert_eq!(code(&output), 75, "{output:?}");
    let free = [
        "--no-wait",
        "--slot",
        "build:1",
        "--pool",
        "deploy:1",
        "--",
        "true",
    ];
    let output = world.run(free);
    assert_eq!(code(&output), 0, "both were given back: {output:?}");
}

#[track_caller]
fn refused_inside(world: &World, outer: &[&str], inner: &str) {
    let inner = format!("\"$TENURE\" run {inner} --no-wait -- touch ran");
    let command = ["--", "sh", "-c", &inner];
    let output = world.run(outer.iter().copied().chain(command));
    assert_eq!(code(&output), 76, "{outer:?}: {output:?}");
    assert!(!world.path("ran").exists());
    let said = text(&output.stderr);
    assert!(
        said.contains("take the pool first: tenure run --pool deploy:2"),
        "{said}"
    );
}

#[test]
fn a_pool_inside_a_lock_or_a_slot_is_refused_with_how_to_do_it() {
    let scene = Scene::new();
    let world = &scene.world;
    refused_inside(world, &["project:atlas"], "--pool deploy:2");
    refused_inside(world, &["x"], "--pool deploy:2 project:atlas");
    refused_inside(world, &["--slot", "build:1"], "--pool deploy:2");
    refused_inside(world, &["--pool", "test:1"], "--pool deploy:2");
    let inner = "\"$TENURE\" run --slot build:1 -- \"$TENURE\" run x -- echo inside";
    let output = world.run(["--pool", "deploy:2", "--", "sh", "-c", inner]);
    assert_eq!(text(&output.stdout), "inside\n", "{output:?}");
}

#[test]
fn nested_use_of_the_same_pool_is_one_place() {
    let scene = Scene::new();
    let world = &scene.world;
    let inner = "\"$TENURE\" run --pool deploy:1 --no-wait -- sh -c 'echo $TENURE_LEASE'; \
                 \"$TENURE\" run x -- \"$TENURE\" run --pool deploy:1 --no-wait y -- echo deep; \
                 echo $TENURE_LEASE";
    let output = world.run(["--pool", "deploy:1", "--", "sh", "-c", inner]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, "deep"), "{output:?}");
    assert_eq!(lines[0], lines[2]);
}

/// The default order of a version without pools, in a store that is in use.
#[test]
fn a_store_with_the_older_order_written_down_goes_on_to_work() {
    let scene = Scene::new();
    let world = &scene.world;
    world.lock(["held", "--ttl", "1h"]);
    scene.write_order("slot project map sketch index gates issue agent file node job name events");
    let output = world.run(["--pool", "deploy:2", "project:atlas", "--", "true"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let held = world.json(["ls"])["held"].clone();
    assert_eq!(held[0]["resource"], "name:held", "it is in use: {held}");
}

#[test]
fn the_wait_for_a_pool_tells_how_many_there_are() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["--pool", "deploy:1"]);
    let mut waiter = world.tenure();
    waiter.args(["run", "--pool", "deploy:1", "--", "true"]);
    let waiter = waiter.stderr(std::process::Stdio::piped()).spawn().unwrap();
    until("it waits", || {
        world.json(["ls"])["waiting"][0]["resource"] == "pool:deploy"
    });
    std::thread::sleep(std::time::Duration::from_millis(1500));
    holder.let_go();
    let waiter = waiter.wait_with_output().unwrap();
    assert_eq!(code(&waiter), 0, "{waiter:?}");
    let said = text(&waiter.stderr);
    assert!(
        said.contains("waiting for pool:deploy (1 at a time), "),
        "{said}"
    );
}

#[test]
fn the_settings_say_how_many_places_a_pool_has() {
    let scene = Scene::new();
    let world = &scene.world;
    let unset = world.run(["--pool", "deploy", "--", "true"]);
    assert_eq!(code(&unset), 65, "{unset:?}");
    let said = text(&unset.stderr);
    assert!(
        said.contains("write deploy:N, or set it in tenure.toml under [pool]"),
        "{said}"
    );
    std::fs::write(world.path("tenure.toml"), "[pool]\ndeploy = 1\n").unwrap();
    let _holder = Holder::start(world, ["--pool", "deploy"]);
    let busy = world.run(["--pool", "deploy", "--no-wait", "--", "true"]);
    assert_eq!(code(&busy), 75, "{busy:?}");
    let owner = ["--owner", "agent:1", "--pool", "deploy:9", "--", "true"];
    let refused = world.run(owner);
    let said = text(&refused.stderr);
    assert!(said.contains("9 places of pool deploy"), "{said}");
    assert!(
        said.contains("use: tenure run --pool deploy -- CMD"),
        "{said}"
    );
}

#[test]
fn a_pool_is_no_lock() {
    let scene = Scene::new();
    for arguments in [
        &["lock", "pool:deploy"][..],
        &["run", "pool:deploy", "--", "true"],
    ] {
        let output = scene.world.call(arguments.iter().copied());
        assert_eq!(code(&output), 2, "{output:?}");
        let said = text(&output.stderr);
        let use_instead = "pools are not among the locks; use: tenure run --pool deploy:N";
        assert!(said.contains(use_instead), "{said}");
    }
}

#[test]
fn a_store_that_cannot_count_says_which_can() {
    let world = World::file();
    let output = world.run(["--pool", "deploy:2", "--", "touch", "ran"]);
    assert_eq!(code(&output), 78, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("use a store that can count, such as"),
        "{said}"
    );
    assert!(!world.path("ran").exists());
}
