//! Hooks that cannot decide: they answer in time, and as `[guard] when_unsure` says.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{GUARDS, ONE, Place, reason};
use crate::world::{code, holds_within, text};

/// The fields of the decision and of the reason, in the answer that each program gets if its tool
/// is refused.
const FORMS: [(&str, &str, &str); 5] = [
    (
        "claude",
        "/hookSpecificOutput/permissionDecision",
        "/hookSpecificOutput/permissionDecisionReason",
    ),
    (
        "codex",
        "/hookSpecificOutput/permissionDecision",
        "/hookSpecificOutput/permissionDecisionReason",
    ),
    ("gemini", "/decision", "/reason"),
    (
        "copilot",
        "/permissionDecision",
        "/permissionDecisionReason",
    ),
    ("cursor", "/permission", "/agent_message"),
];

/// Makes a repository where guards refuse what they cannot decide, with the default wait of hooks.
fn strict() -> Place {
    let place = Place::new();
    let guards = GUARDS.replace("[guard]\n", "[guard]\nwhen_unsure = \"deny\"\n");
    std::fs::write(place.path("tenure.toml"), guards).unwrap();
    place
}

/// Returns a hook whose store cannot be reached.
fn away(place: &Place) -> Command {
    let mut command = place.world.tenure();
    command.env("TENURE_STORE", "postgres://nobody@127.0.0.1:1/x");
    command
}

fn tool(place: &Place, name: &str, input: Value) -> String {
    let more = json!({"tool_name": name, "tool_input": input});
    place.body(ONE, "PreToolUse", more).to_string()
}

fn edit(place: &Place) -> String {
    tool(place, "Edit", json!({"file_path": place.path("a.rs")}))
}

/// Waits for the end of a hook, even while the test keeps its standard input open.
#[track_caller]
fn ended_within(mut hook: Child, limit: Duration) -> Output {
    let ended = holds_within(limit, || hook.try_wait().unwrap().is_some());
    if !ended {
        hook.kill().unwrap();
    }
    let output = hook.wait_with_output().unwrap();
    assert!(ended, "still there after {limit:?}: {output:?}");
    output
}

#[test]
fn a_log_setting_that_cannot_be_read_keeps_no_hook_from_its_work() {
    let place = Place::new();
    let body = place.body(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    let mut command = place.world.tenure();
    command.env("TENURE_LOG", "foo=bar=baz");
    let hook = place.begin(&body.to_string(), &mut command);
    let output = hook.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(
        text(&output.stderr).contains("bad TENURE_LOG"),
        "{output:?}"
    );
    assert_eq!(place.agent(ONE)["commands"], 1);
}

#[test]
fn a_standard_input_that_stays_open_is_waited_for_no_longer_than_a_hook_may_take() {
    let place = Place::new();
    place.with_default_wait();
    let open = |body: &str| {
        let mut command = place.world.tenure();
        command.args(["agent", "hook"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut hook = command.spawn().unwrap();
        let mut stdin = hook.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, body.as_bytes()).unwrap();
        let output = ended_within(hook, Duration::from_secs(15));
        drop(stdin);
        assert_eq!(code(&output), 0, "{output:?}");
        text(&output.stderr)
    };
    let told = open("");
    assert!(
        told.contains("stayed open") && told.contains("bad hook event"),
        "{told}"
    );
    let body = place.body(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    let told = open(&body.to_string());
    assert!(told.contains("stayed open for 1"), "{told}");
    place.watch();
    assert_eq!(place.agent(ONE)["commands"], 1, "what was read counts");
}

#[test]
fn without_its_store_an_edit_is_refused_in_the_form_of_each_program_where_that_is_set() {
    let place = strict();
    for (program, decision, why) in FORMS {
        let began = Instant::now();
        let hook = place.begin_with(&edit(&place), &mut away(&place), &["--program", program]);
        let answer = place.answer(&hook.wait_with_output().unwrap());
        assert_eq!(
            answer.pointer(decision),
            Some(&json!("deny")),
            "{program}: {answer}"
        );
        let why = answer.pointer(why).and_then(Value::as_str).unwrap();
        assert!(
            why.contains("when_unsure") && why.contains("tenure doctor"),
            "{program}: {why}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{program}: {:?}",
            began.elapsed()
        );
    }
    // A tool that no guard has to decide on goes on.
    for body in [
        tool(&place, "Read", json!({"file_path": place.path("a.rs")})),
        tool(&place, "Bash", json!({"command": "ls"})),
        place.body(ONE, "Stop", json!({})).to_string(),
    ] {
        let hook = place.begin(&body, &mut away(&place));
        assert_eq!(
            place.answer(&hook.wait_with_output().unwrap()),
            Value::Null,
            "{body}"
        );
    }
}

#[test]
fn without_its_store_an_edit_goes_on_by_default() {
    let place = Place::new();
    std::fs::write(place.path("tenure.toml"), GUARDS).unwrap();
    for body in [edit(&place).as_str(), "{"] {
        let hook = place.begin(body, &mut away(&place));
        assert_eq!(
            place.answer(&hook.wait_with_output().unwrap()),
            Value::Null,
            "{body}"
        );
    }
}

#[test]
fn an_edit_whose_guard_has_no_time_is_refused_where_that_is_set() {
    let place = strict();
    place.hook(ONE, "SessionStart", json!({}));
    let busy = other_writer(&place);
    let began = Instant::now();
    let denied = reason(&place.answer(&place.send(&edit(&place))));
    assert!(denied.contains("when_unsure"), "{denied}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    drop(busy);
    assert_eq!(place.edit(ONE, "a.rs"), "");
}

/// A program that writes to the database until it is dropped.
struct Writer(Child);

fn other_writer(place: &Place) -> Writer {
    let script = "import sqlite3, sys, time\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        c.execute('BEGIN IMMEDIATE')\n\
        open(sys.argv[2], 'w').close()\n\
        time.sleep(600)";
    let ready = place.path("ready");
    let mut python = Command::new("python3");
    python
        .args(["-c", script])
        .arg(place.path("store/tenure.db"))
        .arg(&ready);
    let writer = Writer(python.spawn().unwrap());
    crate::world::until_exists(&ready);
    writer
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_event_that_cannot_be_read_is_refused_in_the_form_of_each_program_where_that_is_set() {
    let place = strict();
    for (program, decision, why) in FORMS {
        for body in ["", "{", r#"{"hook_event_name": "PreToolUse", "session_id"#] {
            let mut command = place.world.tenure();
            let hook = place.begin_with(body, &mut command, &["--program", program]);
            let answer = place.answer(&hook.wait_with_output().unwrap());
            assert_eq!(
                answer.pointer(decision),
                Some(&json!("deny")),
                "{program} {body:?}: {answer}"
            );
            let why = answer.pointer(why).and_then(Value::as_str).unwrap();
            assert!(why.contains("bad hook event"), "{program}: {why}");
        }
        // An event of another kind has no tool that could be refused.
        let body = r#"{"hook_event_name": "SessionEnd", "session_id"#;
        let mut command = place.world.tenure();
        let hook = place.begin_with(body, &mut command, &["--program", program]);
        assert_eq!(place.answer(&hook.wait_with_output().unwrap()), Value::Null);
    }
    place.settings("[guard]\nwhen_unsure = \"deny\"\n");
    assert_eq!(
        place.answer(&place.send("{")),
        Value::Null,
        "no guard is on"
    );
}
