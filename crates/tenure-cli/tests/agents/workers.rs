//! The watcher: agents that are gone, transcripts, tmux.

use std::process::Command;

use serde_json::{Value, json};

use crate::place::{ONE, ONE_OWNER, OTHER, Place};
use crate::world::{code, until};

#[test]
fn an_agent_that_was_not_seen_for_long_is_called_gone_and_its_next_event_lifts_that() {
    let place = Place::with("[agents]\ngone_after = \"1s\"\n");
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    let lease = place
        .world
        .lock(["deploy", "--ttl", "60s", "--owner", ONE_OWNER]);
    until("it is gone", || place.watch()["gone"] == 1);
    let agent = place.agent(ONE);
    assert_eq!(agent["state"], "gone");
    assert!(agent["reason"].as_str().unwrap().contains("not seen for"));
    // The lease of an agent that is gone lasts on.
    assert_eq!(agent["holds"], json!(["name:deploy"]));
    assert_eq!(place.watch()["gone"], 0, "once");
    place.hook(
        ONE,
        "PostToolUse",
        json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    assert_eq!(place.agent(ONE)["state"], "running");
    assert_eq!(code(&place.world.call(["release", &lease])), 0);
}

#[test]
fn an_agent_that_somebody_is_at_is_skipped_and_comes_in_the_next_go() {
    let place = Place::with("[agents]\ngone_after = \"1ms\"\n");
    place.hook(ONE, "SessionStart", json!({}));
    place.hook(OTHER, "SessionStart", json!({}));
    let mut held = place.world.tenure();
    let mut held = held
        .args(["run", "agent:1", "--", "sleep", "60"])
        .spawn()
        .unwrap();
    until("it is held", || !place.world.is_free("agent:1"));
    let cycle = place.watch();
    assert_eq!(cycle["gone"], 1, "{cycle}");
    assert!(cycle["skipped"].as_u64().unwrap() >= 1, "{cycle}");
    assert_eq!(place.agent(ONE)["state"], "idle");
    assert_eq!(place.agent(OTHER)["state"], "gone");
    // SAFETY: a plain call on a child that was not reaped.
    unsafe { libc::kill(held.id().cast_signed(), libc::SIGTERM) };
    held.wait().unwrap();
    assert_eq!(place.watch()["gone"], 1);
    assert_eq!(place.agent(ONE)["state"], "gone");
}

#[test]
fn turns_that_the_hooks_missed_and_tokens_come_from_the_transcript() {
    let place = Place::new();
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "seen"}));
    let lines = [
        json!({"type": "user", "message": {"role": "user", "content": "missed"}}),
        json!({"type": "assistant", "requestId": "r1", "message": {"content": [{"type": "text", "text": "answer"}], "usage": {"input_tokens": 100, "output_tokens": 7}}}),
        json!({"type": "user", "message": {"role": "user", "content": "seen"}}),
        json!({"type": "assistant", "requestId": "r2", "message": {"content": [{"type": "text", "text": "not finished"}], "usage": {"input_tokens": 200, "cache_read_input_tokens": 50, "output_tokens": 3}}}),
        json!("what is this"),
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat() + "{\"type\":\"user\",\"mess";
    std::fs::write(place.path("transcript.jsonl"), lines).unwrap();
    let cycle = place.watch();
    assert_eq!(
        (&cycle["turns"], &cycle["contexts"]),
        (&json!(2), &json!(1)),
        "{cycle}"
    );
    let agent = place.agent(ONE);
    assert_eq!(agent["turns"], 3);
    assert_eq!(agent["context"], json!({"tokens": 253, "written": 10}));
    let again = place.watch();
    assert_eq!(
        (&again["turns"], &again["contexts"]),
        (&json!(0), &json!(0)),
        "{again}"
    );
}

#[test]
fn an_agent_whose_tmux_pane_is_gone_is_called_gone() {
    let place = Place::new();
    let socket = place.path("tmux").display().to_string();
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        place.world.prepare(&mut command);
        command
            .env_remove("TMUX")
            .args(["-S", &socket, "-f", "/dev/null"])
            .args(arguments);
        let output = command
            .output()
            .expect("tmux is installed: apt-get install tmux");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let pane = tmux(&["new-session", "-d", "-P", "-F", "#{pane_id}", "sleep 600"]);
    assert!(pane.starts_with('%'), "{pane}");
    tmux(&["new-session", "-d", "sleep 600"]);
    let body = place.body(ONE, "SessionStart", json!({})).to_string();
    let mut command = place.world.tenure();
    command
        .env("TMUX", format!("{socket},1,0"))
        .env("TMUX_PANE", &pane);
    let output = place.begin(&body, &mut command).wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(place.watch()["gone"], 0);
    tmux(&["kill-pane", "-t", &pane]);
    assert_eq!(place.watch()["gone"], 1);
    let agent = place.agent(ONE);
    assert_eq!(agent["state"], "gone");
    assert!(
        agent["reason"].as_str().unwrap().contains("pane"),
        "{agent}"
    );
    place.hook(ONE, "Notification", json!({}));
    assert_eq!(place.agent(ONE)["state"], "waiting");
    tmux(&["kill-server"]);
    assert_eq!(place.watch()["gone"], 1);
    assert_ne!(place.agent(ONE)["reason"], Value::Null);
}

#[test]
fn one_page_shows_agents_locks_slots_and_the_board() {
    let place = Place::new();
    let empty = place.world.json(["status"]);
    assert_eq!(empty["agents"], json!([]));
    assert!(
        !place.path("store/tenure.db").exists(),
        "looking makes no store"
    );
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    place.world.lock(["deploy", "--owner", ONE_OWNER]);
    place.world.json(["board", "add", "x", "--id", "i1"]);
    let page = place.world.json(["status"]);
    assert_eq!(page["agents"][0]["owner"], ONE_OWNER);
    assert_eq!(page["held"][0]["resource"], "name:deploy");
    assert_eq!(
        page["board"],
        json!({"open": 1, "ready": 1, "claimed": 0, "blocked": 0, "done": 0})
    );
    let words = place.world.call(["status"]);
    let words = crate::world::text(&words.stdout);
    for part in [ONE_OWNER, "name:deploy", "board: 1 open (1 ready"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn a_stop_that_is_pending_when_its_agent_is_gone_is_carried_out() {
    let place = Place::with("[agents]\ngone_after = \"1ms\"\n");
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    place.hook(ONE, "Stop", json!({"last_assistant_message": "done"}));
    let (mut gone, mut stopped) = (0, 0);
    until("it is gone and stopped", || {
        let cycle = place.watch();
        gone += cycle["gone"].as_u64().unwrap();
        stopped += cycle["stopped"].as_u64().unwrap();
        (gone, stopped) == (1, 1)
    });
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["state"], &agent["stop_due"], &agent["turns"]),
        (&json!("gone"), &Value::Null, &json!(2))
    );
}

#[test]
fn the_last_words_of_a_session_that_ended_without_a_stop_come_from_the_transcript() {
    let place = Place::new();
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    place.hook(ONE, "SessionEnd", json!({}));
    let lines = [
        json!({"type": "user", "message": {"role": "user", "content": "go"}}),
        json!({"type": "assistant", "requestId": "r1", "message": {"content": [{"type": "text", "text": "last words"}], "usage": {"input_tokens": 100, "output_tokens": 7}}}),
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    std::fs::write(place.path("transcript.jsonl"), lines).unwrap();
    let cycle = place.watch();
    assert_eq!(
        (&cycle["turns"], &cycle["contexts"]),
        (&json!(1), &json!(1)),
        "{cycle}"
    );
    assert_eq!(place.watch()["turns"], 0, "once");
    assert_eq!(place.agent(ONE)["state"], "done");
}

#[test]
fn slots_that_an_agent_has_or_waits_for_are_shown_with_it() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    place.hook(OTHER, "SessionStart", json!({}));
    let run = |owner: &str| {
        let mut command = place.world.tenure();
        command.args([
            "run", "--slot", "build:1", "--owner", owner, "--", "sleep", "60",
        ]);
        command.spawn().unwrap()
    };
    let mut holder = run(ONE_OWNER);
    let slot = json!(["slot:build"]);
    until("it is held", || place.agent(ONE)["holds"] == slot);
    let mut waiter = run("agent:claude-bbbbbbbbbbbb");
    until("it waits", || place.agent(OTHER)["waits_for"] == slot);
    for child in [&mut waiter, &mut holder] {
        crate::world::signal(child.id(), libc::SIGTERM);
        child.wait().unwrap();
    }
}

#[test]
fn a_page_that_is_watched_shows_what_is_new_until_it_is_interrupted() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    let page = std::fs::File::create(place.path("page")).unwrap();
    let mut status = place.world.tenure();
    let mut status = status
        .args(["status", "--watch"])
        .stdout(page)
        .spawn()
        .unwrap();
    let shows = |part: &str| {
        let page = std::fs::read_to_string(place.path("page")).unwrap();
        page.contains(part)
    };
    until("it shows the agent", || shows(ONE_OWNER));
    place.hook(OTHER, "SessionStart", json!({}));
    until("it shows the other", || shows("agent:claude-bbbbbbbbbbbb"));
    crate::world::signal(status.id(), libc::SIGINT);
    assert!(status.wait().unwrap().success());
}

#[test]
fn hooks_and_a_reaper_that_never_rests_lose_nothing_of_each_other() {
    let place = Place::with("[agents]\ngone_after = \"1ms\"\n");
    place.hook(ONE, "SessionStart", json!({}));
    let mut reaper = place.world.tenure();
    let mut reaper = reaper
        .args(["agent", "watch", "--every", "1ms"])
        .spawn()
        .unwrap();
    for number in 0..10 {
        place.hook(
            ONE,
            "UserPromptSubmit",
            json!({"prompt": format!("prompt {number}")}),
        );
    }
    until("it is gone in between", || {
        place.agent(ONE)["state"] == "gone"
    });
    crate::world::signal(reaper.id(), libc::SIGTERM);
    assert!(reaper.wait().unwrap().success());
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "last"}));
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["commands"], &agent["state"]),
        (&json!(11), &json!("running"))
    );
}
