//! Events at once, in crowds, malformed, and while the store is away.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::place::{ONE, ONE_OWNER, OTHER, Place};
use crate::world::{code, text, until};

#[test]
fn the_hooks_of_a_session_tell_what_its_agent_does() {
    let place = Place::new();
    place.hook(
        ONE,
        "SessionStart",
        json!({"source": "startup", "model": "opus"}),
    );
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["state"], &agent["owner"]),
        (&json!("idle"), &json!(ONE_OWNER))
    );
    assert_eq!(
        (&agent["program"], &agent["model"], &agent["id"]),
        (&json!("claude"), &json!("opus"), &json!(1))
    );
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "fix the build"}));
    assert_eq!(place.agent(ONE)["task"], "fix the build");
    let bash = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}});
    place.hook(ONE, "PreToolUse", bash.clone());
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["state"], &agent["doing"]),
        (&json!("running"), &json!("Bash: ls"))
    );
    place.hook(ONE, "PermissionRequest", bash.clone());
    assert_eq!(place.agent(ONE)["state"], "waiting");
    place.hook(ONE, "PostToolUse", bash);
    assert_eq!(place.agent(ONE)["state"], "running");
    place.hook(ONE, "SubagentStop", json!({"new_field": 7}));
    let agent = place.agent(ONE);
    assert_eq!(agent["state"], "running");
    assert_eq!(agent["other_events"]["SubagentStop"]["new_field"], 7);
    place.hook(ONE, "SessionEnd", json!({"reason": "exit"}));
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["state"], &agent["reason"]),
        (&json!("done"), &json!("exit"))
    );
    // Only agents at work are listed by default.
    assert_eq!(place.world.json(["agent", "ls"])["agents"], json!([]));
}

#[test]
fn an_agent_is_told_about_tenure_once() {
    let place = Place::new();
    let told = place.hook(ONE, "SessionStart", json!({"source": "startup"}));
    let context = told["hookSpecificOutput"]["additionalContext"]
        .as_str()
        .unwrap();
    assert!(context.contains(ONE_OWNER), "{context}");
    for source in ["resume", "clear", "compact"] {
        assert_eq!(
            place.hook(ONE, "SessionStart", json!({"source": source})),
            Value::Null
        );
    }
}

#[test]
fn of_first_events_at_once_one_makes_the_agent_and_all_are_counted() {
    let place = Place::new();
    let hooks: Vec<_> = (0..8)
        .map(|number| {
            let more = json!({"prompt": format!("prompt {number}")});
            let body = place.body(ONE, "UserPromptSubmit", more);
            place.begin(&body.to_string(), &mut place.world.tenure())
        })
        .collect();
    for hook in hooks {
        let output = hook.wait_with_output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
    }
    // An event whose hook ran out of time waits in the spool.
    place.watch();
    let agents = place.agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert_eq!(
        (&agents[0]["commands"], &agents[0]["turns"]),
        (&json!(8), &json!(8))
    );
}

#[test]
fn fifty_agents_at_once_have_fifty_numbers() {
    let place = Place::new();
    let sessions: Vec<String> = (0..50)
        .map(|n| format!("00000000-0000-4000-8000-{n:012}"))
        .collect();
    for crowd in sessions.chunks(10) {
        let hooks: Vec<_> = crowd
            .iter()
            .map(|session| {
                let body = place.body(session, "SessionStart", json!({}));
                place.begin(&body.to_string(), &mut place.world.tenure())
            })
            .collect();
        for hook in hooks {
            let output = hook.wait_with_output().unwrap();
            assert_eq!(code(&output), 0, "{output:?}");
        }
    }
    place.watch();
    let agents = place.agents();
    let ids: BTreeSet<i64> = agents
        .iter()
        .map(|agent| agent["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, (1..=50).collect());
    let owners: BTreeSet<&str> = agents
        .iter()
        .map(|agent| agent["owner"].as_str().unwrap())
        .collect();
    assert_eq!(owners.len(), 50);
}

#[test]
fn what_is_no_event_is_told_and_changes_nothing() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    let before = place.agents();
    let huge = format!(
        "{{\"session_id\":\"{ONE}\",\"x\":\"{}\"}}",
        "y".repeat(9 << 20)
    );
    for body in [
        "",
        "[]",
        "{\"session_id\":",
        "{\"hook_event_name\":\"Stop\"}",
        "\u{1b}[31m",
        &huge,
    ] {
        let output = place.send(body);
        assert_eq!((code(&output), text(&output.stdout).as_str()), (0, ""));
        let told = text(&output.stderr);
        assert!(
            told.contains("bad hook event") && told.contains("nothing was changed"),
            "{told}"
        );
        assert!(!told.contains('\u{1b}'));
    }
    assert_eq!(place.agents(), before);
}

#[test]
fn an_event_waits_while_the_agents_lock_is_held_and_comes_first_afterwards() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    let mut held = place.world.tenure();
    let mut held = held
        .args(["run", "agent:1", "--", "sleep", "60"])
        .spawn()
        .unwrap();
    until("it is held", || !place.world.is_free("agent:1"));
    place.with_default_wait();
    let body = place.body(ONE, "UserPromptSubmit", json!({"prompt": "first"}));
    let output = place.send(&body.to_string());
    assert_eq!(code(&output), 0);
    let told = text(&output.stderr);
    assert!(told.contains("the event waits"), "{told}");
    // Only this user may read the spool.
    let file = std::fs::metadata(spool_file(&place)).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert_eq!(place.agent(ONE)["commands"], 0);
    // SAFETY: a plain call on a child that was not reaped.
    unsafe { libc::kill(held.id().cast_signed(), libc::SIGTERM) };
    held.wait().unwrap();
    place.settings("");
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "second"}));
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["commands"], &agent["task"]),
        (&json!(2), &json!("second"))
    );
    // Each event is processed once.
    place.hook(ONE, "Notification", json!({}));
    assert_eq!(place.watch()["spooled"], 0);
    assert_eq!(place.agent(ONE)["turns"], 2);
}

#[test]
fn a_store_that_is_away_or_can_never_do_it_is_told() {
    let place = Place::new();
    place.with_default_wait();
    let body = place
        .body(ONE, "UserPromptSubmit", json!({"prompt": "x"}))
        .to_string();
    let mut away = place.world.tenure();
    away.env("TENURE_STORE", "postgres://nobody@127.0.0.1:1/x");
    let output = place.begin(&body, &mut away).wait_with_output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, ""));
    assert!(
        text(&output.stderr).contains("the event waits"),
        "{output:?}"
    );
    let mut never = place.world.tenure();
    never.env(
        "TENURE_STORE",
        format!("file:{}", place.path("locks").display()),
    );
    let output = place.begin(&body, &mut never).wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    let told = text(&output.stderr);
    assert!(
        told.contains("keeps no records") && !told.contains("waits"),
        "{told}"
    );
}

#[test]
fn a_stop_takes_effect_two_seconds_later_unless_the_session_ends_first() {
    let place = Place::new();
    for session in [ONE, OTHER] {
        place.hook(session, "UserPromptSubmit", json!({"prompt": "go"}));
        place.hook(session, "Stop", json!({"last_assistant_message": "done"}));
    }
    // The end of the session completes the command; the stop finds that and does nothing.
    place.hook(OTHER, "SessionEnd", json!({}));
    let ended = place.agent(OTHER);
    assert_eq!(
        (&ended["state"], &ended["turns"], &ended["stop_due"]),
        (&json!("done"), &json!(2), &Value::Null)
    );
    let mut stopped = 0;
    until("the stop is due", || {
        stopped += place.watch()["stopped"].as_u64().unwrap();
        stopped == 1
    });
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["state"], &agent["turns"], &agent["is_command_open"]),
        (&json!("idle"), &json!(2), &json!(false))
    );
    // In the other order the stop comes first, and the end finds the command complete.
    place.hook(ONE, "SessionEnd", json!({}));
    assert_eq!(place.agent(ONE)["turns"], 2);
    assert_eq!(place.agent(OTHER), ended);
}

#[test]
fn the_project_chooses_the_store_and_the_guards_not_the_directory_of_an_event() {
    let place = Place::with(crate::place::GUARDS);
    let elsewhere = tempfile::tempdir().unwrap();
    let send = |session: &str, name: &str, cwd: &std::path::Path| {
        let input = json!({"tool_name": "Edit", "tool_input": {"file_path": place.path("a.rs")}});
        let mut body = place.body(session, name, input);
        body["cwd"] = json!(cwd);
        let mut command = place.world.tenure();
        command.env_remove("TENURE_STORE");
        let output = place.begin(&body.to_string(), &mut command);
        let output = output.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "");
        crate::place::reason(&place.answer(&output))
    };
    assert_eq!(send(ONE, "PreToolUse", &place.path("")), "");
    let denied = send(OTHER, "PreToolUse", elsewhere.path());
    assert!(denied.contains(ONE_OWNER), "{denied}");
    send(ONE, "SessionEnd", elsewhere.path());
    assert_eq!(send(OTHER, "PreToolUse", elsewhere.path()), "");
    // A hook that is started outside of any project takes the project from its event.
    let input = json!({"tool_name": "Edit", "tool_input": {"file_path": place.path("a.rs")}});
    let body = place.body(ONE, "PreToolUse", input).to_string();
    let mut command = place.world.tenure();
    command
        .env_remove("TENURE_STORE")
        .current_dir(elsewhere.path());
    let output = place.begin(&body, &mut command).wait_with_output().unwrap();
    assert_ne!(crate::place::reason(&place.answer(&output)), "");
}

#[test]
fn a_start_that_waited_in_the_spool_does_not_use_up_what_the_agent_is_told() {
    let place = Place::new();
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    let held = Held::agent(&place);
    place.with_default_wait();
    let start = place.body(ONE, "SessionStart", json!({})).to_string();
    let output = place.send(&start);
    assert!(
        text(&output.stderr).contains("the event waits"),
        "{output:?}"
    );
    held.end();
    place.settings("");
    assert_eq!(place.watch()["spooled"], 1);
    assert_eq!(place.agent(ONE)["prompt_injected_at"], Value::Null);
    let told = place.hook(ONE, "SessionStart", json!({"source": "resume"}));
    assert!(
        told["hookSpecificOutput"]["additionalContext"].is_string(),
        "{told}"
    );
}

#[test]
fn an_event_that_was_committed_without_its_hook_knowing_is_not_processed_twice() {
    // If more events follow than the agent remembers, the event is known by the turn it made.
    for between in [0, 20] {
        let place = Place::new();
        place.hook(ONE, "UserPromptSubmit", json!({"prompt": "once"}));
        let id = place.agent(ONE)["processed"][0].clone();
        assert!(id.is_string(), "it is remembered");
        for _ in 0..between {
            place.hook(ONE, "Notification", json!({}));
        }
        let held = Held::agent(&place);
        place.with_default_wait();
        let body = place.body(ONE, "UserPromptSubmit", json!({"prompt": "once"}));
        place.send(&body.to_string());
        held.end();
        place.settings("");
        // A hook that was cut off left its event under the id that is committed.
        let file = spool_file(&place);
        let line = std::fs::read_to_string(&file).unwrap();
        let mut line: Value = serde_json::from_str(line.trim()).unwrap();
        line["id"] = id;
        std::fs::write(&file, format!("{line}\n")).unwrap();
        place.hook(ONE, "Notification", json!({}));
        let agent = place.agent(ONE);
        assert_eq!(
            (&agent["commands"], &agent["turns"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    }
}

/// Returns the only file of the spool.
pub fn spool_file(place: &Place) -> std::path::PathBuf {
    let spool = std::fs::read_dir(place.path("home/.local/state/tenure/spool")).unwrap();
    let store = spool.flatten().next().unwrap().path();
    let mut files = std::fs::read_dir(store).unwrap().flatten();
    files.next().unwrap().path()
}

/// A program that holds the lock of the first agent.
pub struct Held {
    child: std::process::Child,
}

impl Held {
    pub fn agent(place: &Place) -> Self {
        let mut command = place.world.tenure();
        let command = command.args(["run", "agent:1", "--", "sleep", "60"]);
        let child = command.spawn().unwrap();
        until("it is held", || !place.world.is_free("agent:1"));
        Self { child }
    }

    pub fn end(mut self) {
        crate::world::signal(self.child.id(), libc::SIGTERM);
        self.child.wait().unwrap();
    }
}

#[test]
fn a_hook_does_not_wait_longer_than_it_may_while_another_program_writes_to_the_database() {
    let place = Place::new();
    place.hook(OTHER, "SessionStart", json!({}));
    std::fs::write(
        place.path("tenure.toml"),
        "[agents]\nhook_wait = \"200ms\"\n",
    )
    .unwrap();
    let script = "import select, sqlite3, sys\n\
        db = sqlite3.connect('store/tenure.db')\n\
        db.execute('BEGIN IMMEDIATE')\n\
        print('locked', flush=True)\n\
        select.select([sys.stdin], [], [], 20)\n";
    let mut python = std::process::Command::new("python3");
    place.world.prepare(&mut python);
    python
        .args(["-c", script])
        .stdin(std::process::Stdio::piped());
    let mut writer = python.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
    // The one event is the first of its agent, the other that of a known agent.
    for session in [ONE, OTHER] {
        let began = std::time::Instant::now();
        let body = place.body(session, "UserPromptSubmit", json!({"prompt": "go"}));
        let output = place.send(&body.to_string());
        let took = began.elapsed();
        assert!(
            took < std::time::Duration::from_secs(3),
            "{took:?}: {output:?}"
        );
        let told = text(&output.stderr);
        assert!(
            told.contains("the event waits") && !told.contains("held"),
            "{told}"
        );
    }
    drop(writer.stdin.take());
    writer.wait().unwrap();
    place.settings("");
    assert_eq!(place.watch()["spooled"], 2);
    assert_eq!(place.agent(ONE)["commands"], 1);
}

#[test]
fn a_hook_that_is_called_wrongly_says_so_and_does_not_refuse_the_tool() {
    let place = Place::new();
    for wrong in [["--program", "nonsense"], ["--flag", "x"]] {
        let output = place.world.call(["agent", "hook"].into_iter().chain(wrong));
        assert_eq!((code(&output), text(&output.stdout).as_str()), (0, ""));
        let under_run = ["run", "x", "--flag", "--", "agent", "hook"];
        assert_eq!(code(&place.world.call(under_run)), 2);
        assert!(text(&output.stderr).contains(wrong[1]) || text(&output.stderr).contains(wrong[0]));
    }
}

#[test]
fn what_an_agent_runs_is_shown_without_its_secrets_or_not_at_all() {
    let line = "API_TOKEN=sekrit123 mysql --password=hunter2";
    let shell = json!({"tool_name": "Bash", "tool_input": {"command": line}});
    let place = Place::new();
    place.hook(ONE, "PreToolUse", shell.clone());
    let shown = place.world.call(["agent", "ls", "--json"]);
    let shown = text(&shown.stdout);
    assert!(
        !shown.contains("sekrit123") && !shown.contains("hunter2"),
        "{shown}"
    );
    assert_eq!(
        place.agent(ONE)["doing"],
        "Bash: API_TOKEN=… mysql --password=…"
    );
    place.settings("commands = \"name\"\n");
    place.hook(ONE, "PreToolUse", shell);
    assert_eq!(place.agent(ONE)["doing"], "Bash");
}
