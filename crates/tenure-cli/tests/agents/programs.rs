//! The events that each program really sends, and the form of its answer.

use serde_json::{Value, json};

use crate::place::{GUARDS, ONE, Place};
use crate::world::text;

/// Sends bodies as a program does, and returns the answer to the last.
fn send(place: &Place, bodies: &[Value]) -> Value {
    let mut answer = Value::Null;
    for body in bodies {
        let output = place.send(&body.to_string());
        assert_eq!(text(&output.stderr), "", "{body}");
        answer = place.answer(&output);
    }
    answer
}

fn only_agent(place: &Place) -> Value {
    let agents = place.agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    agents[0].clone()
}

const INSTEAD: &str = "tenure run --slot build:2 -- cargo test";

#[test]
fn claude_code() {
    let place = Place::with(GUARDS);
    let answer = send(
        &place,
        &[
            json!({"session_id": ONE, "transcript_path": "/t.jsonl", "cwd": place.path(""), "permission_mode": "default", "hook_event_name": "UserPromptSubmit", "prompt": "go"}),
            json!({"session_id": ONE, "transcript_path": "/t.jsonl", "cwd": place.path(""), "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "cargo test", "description": "Runs tests"}, "tool_use_id": "toolu_1"}),
        ],
    );
    let output = &answer["hookSpecificOutput"];
    assert_eq!(
        (&output["hookEventName"], &output["permissionDecision"]),
        (&json!("PreToolUse"), &json!("deny"))
    );
    assert!(
        output["permissionDecisionReason"]
            .as_str()
            .unwrap()
            .ends_with(INSTEAD)
    );
    assert_eq!(only_agent(&place)["program"], "claude");
}

#[test]
fn codex() {
    let place = Place::with(GUARDS);
    let answer = send(
        &place,
        &[
            json!({"session_id": ONE, "turn_id": "t1", "model": "gpt", "transcript_path": null, "cwd": place.path(""), "hook_event_name": "SessionStart", "source": "startup"}),
            json!({"session_id": ONE, "turn_id": "t1", "model": "gpt", "cwd": place.path(""), "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "cargo test"}}),
        ],
    );
    // Codex refuses an answer with fields it does not know.
    let output = answer["hookSpecificOutput"].as_object().unwrap();
    let names: Vec<&String> = output.keys().collect();
    assert_eq!(
        names,
        [
            "hookEventName",
            "permissionDecision",
            "permissionDecisionReason"
        ]
    );
    assert_eq!(answer.as_object().unwrap().len(), 1);
    let agent = only_agent(&place);
    assert_eq!(
        (&agent["program"], &agent["owner"]),
        (&json!("codex"), &json!("agent:codex-aaaaaaaaaaaa"))
    );
}

#[test]
fn gemini() {
    let place = Place::with(GUARDS);
    let answer = send(
        &place,
        &[
            json!({"session_id": ONE, "transcript_path": "/t", "cwd": place.path(""), "hook_event_name": "BeforeAgent", "timestamp": "2026-11-01T00:00:00Z", "prompt": "go"}),
            json!({"session_id": ONE, "transcript_path": "/t", "cwd": place.path(""), "hook_event_name": "BeforeTool", "timestamp": "2026-11-01T00:00:00Z", "tool_name": "run_shell_command", "tool_input": {"command": "cargo test"}}),
        ],
    );
    assert_eq!(answer["decision"], "deny");
    assert!(answer["reason"].as_str().unwrap().ends_with(INSTEAD));
    let agent = only_agent(&place);
    assert_eq!(
        (&agent["program"], &agent["commands"]),
        (&json!("gemini"), &json!(1))
    );
    // Gemini may send relative paths.
    let write = json!({"session_id": ONE, "cwd": place.path(""), "hook_event_name": "BeforeTool", "timestamp": "x", "tool_name": "write_file", "tool_input": {"file_path": "a.rs"}});
    assert_eq!(send(&place, &[write]), Value::Null);
    let held = place.world.json(["ls", "file:"]);
    assert!(
        held["held"][0]["resource"]
            .as_str()
            .unwrap()
            .ends_with("/a.rs")
    );
}

#[test]
fn copilot() {
    let place = Place::with(GUARDS);
    let answer = send(
        &place,
        &[
            json!({"hookEventName": "preToolUse", "sessionId": ONE, "timestamp": 1, "cwd": place.path(""), "toolName": "bash", "toolArgs": "{\"command\":\"cargo test\"}"}),
        ],
    );
    assert_eq!(answer["permissionDecision"], "deny");
    assert!(
        answer["permissionDecisionReason"]
            .as_str()
            .unwrap()
            .ends_with(INSTEAD)
    );
    assert_eq!(only_agent(&place)["program"], "copilot");
}

#[test]
fn cursor() {
    let place = Place::with(GUARDS);
    let answer = send(
        &place,
        &[
            json!({"conversation_id": ONE, "generation_id": "g", "hook_event_name": "beforeSubmitPrompt", "workspace_roots": [place.path("")], "prompt": "go"}),
            json!({"conversation_id": ONE, "generation_id": "g", "hook_event_name": "beforeShellExecution", "workspace_roots": [place.path("")], "command": "cargo test", "cwd": place.path("")}),
        ],
    );
    assert_eq!(answer["permission"], "deny");
    assert!(answer["agent_message"].as_str().unwrap().ends_with(INSTEAD));
    assert_eq!(only_agent(&place)["program"], "cursor");
}

#[test]
fn the_routes_of_older_programs_are_the_same_events() {
    let place = Place::new();
    let mut command = place.world.tenure();
    let body = json!({"session_id": ONE, "cwd": place.path(""), "prompt": "go"}).to_string();
    command.args(["--store", &place.world.store()]);
    let mut child = {
        use std::io::Write;
        use std::process::Stdio;
        let mut child = command
            .args(["agent", "hook", "--event", "user-prompt-submit"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(body.as_bytes())
            .unwrap();
        child
    };
    assert!(child.wait().unwrap().success());
    assert_eq!(only_agent(&place)["commands"], 1);
}

#[test]
fn a_session_whose_program_is_guessed_is_one_owner_to_its_end() {
    let place = Place::with(GUARDS);
    let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** End Patch\n";
    send(
        &place,
        &[
            json!({"session_id": ONE, "cwd": place.path(""), "hook_event_name": "SessionStart", "source": "startup"}),
            json!({"session_id": ONE, "turn_id": "t1", "cwd": place.path(""), "hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_input": {"command": patch}}),
        ],
    );
    let agent = only_agent(&place);
    let held = place.world.json(["ls", "file:"]);
    assert_eq!(held["held"][0]["owner"], agent["owner"]);
    send(
        &place,
        &[
            json!({"session_id": ONE, "turn_id": "t1", "cwd": place.path(""), "hook_event_name": "SessionEnd"}),
        ],
    );
    assert_eq!(place.world.json(["ls", "file:"])["held"], json!([]));
}

#[test]
fn the_environment_tells_a_program_that_its_event_does_not() {
    let place = Place::new();
    let body = json!({"session_id": ONE, "cwd": place.path(""), "hook_event_name": "SessionStart"});
    let mut command = place.world.tenure();
    command.env("CODEX_THREAD_ID", ONE);
    let hook = place.begin(&body.to_string(), &mut command);
    place.answer(&hook.wait_with_output().unwrap());
    assert_eq!(only_agent(&place)["owner"], "agent:codex-aaaaaaaaaaaa");
}
