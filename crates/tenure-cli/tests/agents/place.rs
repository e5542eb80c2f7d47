//! A repository with agents.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::world::{World, code, json as parse, text};

/// A repository, and a store.
pub struct Place {
    pub world: World,
}

/// A session id; its owner's name ends with the last twelve characters.
pub const ONE: &str = "0b2f6c1e-0000-4000-8000-aaaaaaaaaaaa";
pub const OTHER: &str = "0b2f6c1e-0000-4000-8000-bbbbbbbbbbbb";
pub const ONE_OWNER: &str = "agent:claude-aaaaaaaaaaaa";

/// Settings that turn the guards on.
pub const GUARDS: &str =
    "[guard]\nedits = true\n[guard.commands]\n\"cargo test\" = \"slot build\"\n[slot]\nbuild = 2\n";

impl Place {
    pub fn new() -> Self {
        Self::of(World::new())
    }

    pub fn of(world: World) -> Self {
        let mut git = Command::new("git");
        world.prepare(&mut git);
        assert!(git.args(["init", "--quiet"]).status().unwrap().success());
        std::fs::create_dir_all(world.path("home")).unwrap();
        let place = Self { world };
        place.settings("");
        place
    }

    pub fn with(settings: &str) -> Self {
        let place = Self::new();
        place.settings(settings);
        place
    }

    /// Writes `tenure.toml` with these settings. Hooks wait for longer than by default, so that a
    /// slow machine changes nothing.
    pub fn settings(&self, settings: &str) {
        let wait = "hook_wait = \"30s\"\n";
        let settings = match settings.contains("[agents]") {
            true => settings.replace("[agents]\n", &format!("[agents]\n{wait}")),
            false => format!("{settings}\n[agents]\n{wait}"),
        };
        std::fs::write(self.world.path("tenure.toml"), settings).unwrap();
    }

    /// Lets hooks wait as long as they do by default.
    pub fn with_default_wait(&self) {
        std::fs::remove_file(self.world.path("tenure.toml")).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    /// Returns the body of an event of Claude Code.
    pub fn body(&self, session: &str, name: &str, more: Value) -> Value {
        let mut body = json!({
            "session_id": session,
            "transcript_path": self.path("transcript.jsonl"),
            "cwd": self.path(""),
            "hook_event_name": name,
        });
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    }

    /// Sends an event, which must cause no message, and returns the answer.
    #[track_caller]
    pub fn hook(&self, session: &str, name: &str, more: Value) -> Value {
        let output = self.send(&self.body(session, name, more).to_string());
        assert_eq!(text(&output.stderr), "");
        self.answer(&output)
    }

    /// Returns the answer of a hook, or null.
    #[track_caller]
    pub fn answer(&self, output: &Output) -> Value {
        assert_eq!(code(output), 0, "{output:?}");
        match output.stdout.is_empty() {
            true => Value::Null,
            false => parse(&output.stdout),
        }
    }

    /// Sends a body to the hook, and waits for its end.
    pub fn send(&self, body: &str) -> Output {
        self.begin(body, &mut self.world.tenure())
            .wait_with_output()
            .unwrap()
    }

    /// Starts a hook with a body.
    pub fn begin(&self, body: &str, command: &mut Command) -> Child {
        self.begin_with(body, command, &[])
    }

    /// Starts a hook with a body and options.
    pub fn begin_with(&self, body: &str, command: &mut Command, options: &[&str]) -> Child {
        let mut child = command
            .args(["agent", "hook"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A hook that stops reading closes the pipe.
        let _ = stdin.write_all(body.as_bytes());
        child
    }

    /// Asks to edit a file in a session. Returns the reason of the denial, or nothing.
    #[track_caller]
    pub fn edit(&self, session: &str, file: &str) -> String {
        let input = json!({"tool_name": "Edit", "tool_input": {"file_path": self.path(file)}});
        reason(&self.hook(session, "PreToolUse", input))
    }

    pub fn agents(&self) -> Vec<Value> {
        let agents = self.world.json(["agent", "ls", "--all"]);
        agents["agents"].as_array().unwrap().clone()
    }

    #[track_caller]
    pub fn agent(&self, session: &str) -> Value {
        let agents = self.agents();
        let found = agents.iter().find(|agent| agent["session"] == session);
        found.unwrap_or_else(|| panic!("{agents:?}")).clone()
    }

    #[track_caller]
    pub fn watch(&self) -> Value {
        self.world.json(["agent", "watch", "--once"])
    }
}

/// Returns the reason of a denial, or nothing.
pub fn reason(answer: &Value) -> String {
    let output = &answer["hookSpecificOutput"];
    match output["permissionDecision"].as_str() {
        Some(decision) => {
            assert_eq!(decision, "deny");
            output["permissionDecisionReason"]
                .as_str()
                .unwrap()
                .to_owned()
        }
        None => String::new(),
    }
}
