//! The owner, if a coding agent runs the command.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::world::{World, code, json, text};

/// The variables that each program sets for its commands, and the owner that follows from them.
const SESSIONS: [(&str, &str, &str); 5] = [
    (
        "CLAUDE_CODE_SESSION_ID",
        "0b5e2f0e-93a1-4c5d-8e7f-1f2e3d4c5b6a",
        "agent:claude-1f2e3d4c5b6a",
    ),
    (
        "CODEX_THREAD_ID",
        "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa",
        "agent:codex-aaaaaaaaaaaa",
    ),
    (
        "COPILOT_AGENT_SESSION_ID",
        "f00dfeed-1111-4c5d-8e7f-bbbbbbbbbbbb",
        "agent:copilot-bbbbbbbbbbbb",
    ),
    (
        "CURSOR_CONVERSATION_ID",
        "f00dfeed-1111-4c5d-8e7f-cccccccccccc",
        "agent:cursor-cccccccccccc",
    ),
    (
        "GEMINI_SESSION_ID",
        "f00dfeed-1111-4c5d-8e7f-dddddddddddd",
        "agent:gemini-dddddddddddd",
    ),
];

fn owner_of_run(command: &mut Command, flag: &[&str]) -> String {
    command.arg("run").args(flag);
    let output = command.args(["x", "--", "sh", "-c", "echo $TENURE_OWNER"]);
    text(&output.output().unwrap().stdout).trim().to_owned()
}

#[test]
fn the_flag_beats_the_variable_beats_the_agent_beats_the_user() {
    let world = World::new();
    for (variable, session, owner) in SESSIONS {
        let under = || {
            let mut command = world.tenure();
            command.env(variable, session);
            command
        };
        assert_eq!(owner_of_run(&mut under(), &[]), owner);
        assert_eq!(owner_of_run(under().env("TENURE_OWNER", "bo"), &[]), "bo");
        let flag = owner_of_run(under().env("TENURE_OWNER", "bo"), &["--owner", "cy"]);
        assert_eq!(flag, "cy");
        assert!(owner_of_run(under().env(variable, ""), &[]).starts_with("ana@"));
    }
}

#[test]
fn an_agent_releases_its_own_lease_by_name_and_may_not_break_one() {
    let world = World::new();
    let by = |session: &str, arguments: &[&str]| {
        let mut command = world.tenure();
        command.env("CODEX_THREAD_ID", session);
        command.args(arguments).output().unwrap()
    };
    for session in [
        "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa",
        "019a1b2c-3d4e-7f00-8a11-bbbbbbbbbbbb",
    ] {
        let taken = by(session, &["lock", "shared=read", "--ttl", "1h"]);
        assert_eq!(code(&taken), 0, "{taken:?}");
    }
    let released = by(
        "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa",
        &["release", "shared"],
    );
    assert_eq!(code(&released), 0, "{released:?}");
    let held = world.json(["ls"]);
    assert_eq!(held["held"].as_array().unwrap().len(), 1, "{held}");
    assert_eq!(held["held"][0]["owner"], "agent:codex-bbbbbbbbbbbb");
    let lease = held["held"][0]["lease"].as_str().unwrap();
    let broken = by(
        "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa",
        &["break", lease, "--reason", "mine", "--yes"],
    );
    assert_eq!(code(&broken), 77, "{broken:?}");
}

#[test]
fn two_agents_that_name_no_session_are_two_owners_and_each_stays_one() {
    // The one agent is recognised by the name of its process, the other by the variable alone.
    for name in ["claude", "launcher"] {
        two_agents(name);
    }
}

fn two_agents(name: &str) {
    let world = World::new();
    // An agent is a process that gives its commands a variable which it does not have itself.
    let script = "#!/bin/sh\nfor name in one two; do CLAUDECODE=1 sh -c \
                  '\"$TENURE\" lock \"$0\" --ttl 1h' \"$1-$name\"; done\n";
    fs::write(world.path(name), script).unwrap();
    fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    for agent in ["a", "b"] {
        let mut command = Command::new(world.path(name));
        world.prepare(&mut command);
        let output = command.arg(agent).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let listing = world.json(["ls"]);
    let owner = |resource: &str| {
        let held = listing["held"].as_array().unwrap();
        let lease = held.iter().find(|lease| lease["resource"] == resource);
        lease.unwrap()["owner"].as_str().unwrap().to_owned()
    };
    assert!(
        owner("name:a-one").starts_with("agent:claude-"),
        "{listing}"
    );
    assert_eq!(owner("name:a-one"), owner("name:a-two"));
    assert_eq!(owner("name:b-one"), owner("name:b-two"));
    assert_ne!(owner("name:a-one"), owner("name:b-one"));
}

#[test]
fn an_agent_waits_for_ninety_seconds_unless_told_otherwise() {
    let world = World::new();
    let _lease = world.lock(["x", "--ttl", "1h"]);
    let mut command = world.tenure();
    command.env("CODEX_THREAD_ID", "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa");
    let mut waiter = command.args(["run", "x", "--", "true"]).spawn().unwrap();
    world.until_waiting(1, waiter.id());
    let listing = json(&world.call(["ls", "--json"]).stdout);
    let waiting = &listing["waiting"][0];
    assert_eq!(waiting["owner"], "agent:codex-aaaaaaaaaaaa");
    let at = |field: &str| {
        let text = waiting[field].as_str().unwrap();
        let (clock, _) = text.split_once('.').unwrap_or((text, ""));
        let clock = clock.trim_end_matches('Z').rsplit('T').next().unwrap();
        let parts: Vec<i64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
        parts[0] * 3600 + parts[1] * 60 + parts[2]
    };
    let wait = (at("deadline") - at("since")).rem_euclid(86_400);
    assert!((85..=95).contains(&wait), "{waiting}");
    waiter.kill().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn under_a_coding_agent_no_owner_that_is_named_is_a_person() {
    let world = World::new();
    let lease = world.lock(["x"]);
    fs::write(
        world.path("tenure.toml"),
        "[agents]\nsummary = [\"true\"]\n",
    )
    .unwrap();
    assert_eq!(code(&world.call(["board", "init"])), 0);
    let gate = ["board", "gate", "define", "review", "--by", "people"];
    assert_eq!(code(&world.call(gate)), 0);
    let added = ["board", "add", "fix", "--id", "fix", "--gate", "review"];
    assert_eq!(code(&world.call(added)), 0);
    let as_ana = |arguments: &[&str]| {
        let mut command = world.tenure();
        command.env(SESSIONS[0].0, SESSIONS[0].1);
        command.env("TENURE_OWNER", "ana@desk");
        command.args(arguments).output().unwrap()
    };
    for refused in [
        &["break", &lease, "--reason", "mine", "--yes"][..],
        &["doctor", "--trust"],
        &["lock", "y", "--ttl", "2h"],
        &["run", "--wait", "11m", "y", "--", "true"],
        &["board", "gate", "pass", "fix", "review"],
    ] {
        let output = as_ana(refused);
        assert_eq!(code(&output), 77, "{refused:?}: {output:?}");
    }
    let told = text(&as_ana(&["lock", "y", "--ttl", "2h"]).stderr).to_owned();
    let agent = SESSIONS[0].2;
    assert!(
        told.contains(&format!("it runs under the coding agent {agent}")),
        "{told}"
    );
    // Work that is allowed to every owner goes on.
    assert_eq!(code(&as_ana(&["lock", "y"])), 0);
}
