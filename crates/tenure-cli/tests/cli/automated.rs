//! Refusals to owners that are no people.

use std::fs;

use crate::holder::Holder;
use crate::world::{World, code, text};

#[test]
fn an_agent_neither_waits_nor_leases_beyond_the_limits() {
    let world = World::new();
    fs::write(world.path("log.json"), "{}").unwrap();
    assert_eq!(code(&world.call(["ledger", "init", "proof"])), 0);
    for id in ["one", "two"] {
        assert_eq!(code(&world.call(["board", "add", "x", "--id", id])), 0);
    }
    let lease = world.lock(["mine", "--owner", "agent:42"]);
    let cases: [&[&str]; 9] = [
        &["board", "next", "--wait", "20m"],
        &["board", "run", "--wait", "20m", "--", "touch", "started"],
        &["lock", "x", "--ttl", "61m"],
        &["lock", "x", "--wait", "11m"],
        &["run", "x", "--wait", "601s", "--", "touch", "started"],
        &[
            "run", "--slot", "build:1", "--wait", "1h", "--", "touch", "started",
        ],
        &["doc", "update", "log.json", "--wait", "11m", "--", "cat"],
        &["ledger", "claim", "proof", "1", "--wait", "11m"],
        &["board", "claim", "two", "--ttl", "61m"],
    ];
    for arguments in cases {
        let by = |owner: &str| {
            let mut command = world.tenure();
            command.args(arguments).env("TENURE_OWNER", owner);
            command.output().unwrap()
        };
        let output = by("agent:42");
        assert_eq!(code(&output), 77, "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains("automated"), "{output:?}");
        assert!(!world.path("started").exists());
        let output = by("ana@desk");
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
        let _ = fs::remove_file(world.path("started"));
        let released = world
            .tenure()
            .args(["release", "x"])
            .env("TENURE_OWNER", "ana@desk")
            .output();
        released.unwrap();
    }
    let renewed = world.call(["renew", &lease, "--ttl", "2h"]);
    assert_eq!(
        code(&renewed),
        77,
        "the limit is that of the owner of the lease: {renewed:?}"
    );
    assert_eq!(code(&world.call(["renew", &lease, "--ttl", "1h"])), 0);
}

#[test]
fn people_set_the_limits_of_agents() {
    let world = World::new();
    let settings = "automated = ['bot-*']\nautomated_ttl_max = '2m'\nautomated_wait_max = '1s'\n";
    fs::write(world.path("tenure.toml"), settings).unwrap();
    let lock = |owner: &str, ttl: &str, wait: &str| {
        let output = world.call(["lock", "x", "--owner", owner, "--ttl", ttl, "--wait", wait]);
        world.call(["release", "x", "--owner", owner]);
        code(&output)
    };
    assert_eq!(lock("bot-1", "2m", "1s"), 0);
    assert_eq!(lock("bot-1", "3m", "1s"), 77);
    assert_eq!(lock("bot-1", "2m", "2s"), 77);
    assert_eq!(
        lock("agent:42", "3m", "2s"),
        0,
        "it is not among those that are named"
    );
}

#[test]
fn a_limit_below_the_default_wait_shortens_it_and_refuses_nothing() {
    let world = World::new();
    fs::write(world.path("tenure.toml"), "automated_wait_max = '2s'\n").unwrap();
    fs::write(world.path("log.json"), "{}").unwrap();
    fs::create_dir_all(world.path("out")).unwrap();
    assert_eq!(code(&world.call(["ledger", "init", "proof"])), 0);
    assert_eq!(code(&world.call(["board", "add", "x", "--id", "one"])), 0);
    let cases: [&[&str]; 6] = [
        &["run", "x", "--", "true"],
        &["lock", "y"],
        &["doc", "update", "log.json", "--", "cat"],
        &["ledger", "claim", "proof", "1"],
        &["board", "claim", "one"],
        &["publish", "out", "published"],
    ];
    for arguments in cases {
        let mut command = world.tenure();
        command.args(arguments).env("TENURE_OWNER", "agent:42");
        let output = command.output().unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
    }
    let _holder = Holder::start(&world, ["x"]);
    let output = world.run(["--owner", "agent:42", "x", "--", "true"]);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(text(&output.stderr).contains("within 2.0s"), "{output:?}");
}

#[test]
fn the_command_of_an_agent_waits_for_90_seconds_by_default_and_of_a_person_for_10_minutes() {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    for (owner, limit) in [("agent:42", 90), ("job:7", 90), ("ana@desk", 600)] {
        let mut command = world.tenure();
        command.args(["run", "--owner", owner, "x", "--", "true"]);
        let mut waiting = command.spawn().unwrap();
        world.until_waiting(1, waiting.id());
        let listed = world.json(["ls"]);
        let time = |field: &str| {
            let text = listed["waiting"][0][field].as_str().unwrap();
            text.parse::<tenure::Timestamp>().unwrap()
        };
        let waits = time("deadline").since(time("since")).as_secs();
        assert!((limit - 5..=limit).contains(&waits), "{owner}: {waits}");
        waiting.kill().unwrap();
        waiting.wait().unwrap();
    }
}

#[test]
fn an_agent_does_not_decide_that_a_file_system_can_be_trusted() {
    let world = World::new();
    let trusting = |owner: &str| {
        let mut command = world.tenure();
        command.args(["run", "x", "--", "true"]);
        command
            .env("TENURE_TRUST_FLOCK", "1")
            .env("TENURE_OWNER", owner);
        command.output().unwrap()
    };
    let refused = trusting("agent:42");
    assert_eq!(code(&refused), 77, "{refused:?}");
    assert!(text(&refused.stderr).contains("may not trust a file system"));
    assert_eq!(code(&trusting("ana@desk")), 0);
    let mut recover = world.tenure();
    recover.arg("recover").env("TENURE_OWNER", "agent:42");
    let refused = recover.env("TENURE_TRUST_FLOCK", "1").output().unwrap();
    assert_eq!(code(&refused), 77, "{refused:?}");
    fs::write(world.path("tenure.toml"), "trust_flock = true\n").unwrap();
    let output = world.run(["--owner", "agent:42", "x", "--", "true"]);
    assert_eq!(code(&output), 0, "a person decided: {output:?}");
}
