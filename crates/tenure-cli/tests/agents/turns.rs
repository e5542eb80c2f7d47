//! Turns: each is kept once, whether hooks or transcripts report it first.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tenure_testkit::postgres::{Cluster, Database};

use crate::place::{ONE, Place};
use crate::world::{World, code, signal, text, until};

/// Makes a repository on each store that keeps records.
fn places() -> [Turns; 2] {
    let database = Cluster::shared().database();
    let server = Place::of(World::at(&database.url()));
    [
        Turns {
            place: Place::new(),
            database: None,
        },
        Turns {
            place: server,
            database: Some(database),
        },
    ]
}

struct Turns {
    place: Place,
    database: Option<Database>,
}

impl Turns {
    /// Returns the turns of the view for people, as speaker and text, by number.
    fn kept(&self) -> Vec<String> {
        const ALL: &str = "|| ': ' || replace(text, '\n', '~') FROM";
        let rows = match &self.database {
            Some(database) => database.psql(&format!(
                "SELECT by {ALL} tenure.turns ORDER BY number, text"
            )),
            None => {
                let script = "import sqlite3, sys\n\
                    for row in sqlite3.connect('store/tenure.db').execute(sys.argv[1]): print(row[0])";
                let select = format!("SELECT \"by\" {ALL} turns ORDER BY number, text");
                let mut python = Command::new("python3");
                self.place.world.prepare(&mut python);
                let output = python.args(["-c", script, &select]).output().unwrap();
                assert_eq!(code(&output), 0, "{output:?}");
                text(&output.stdout)
            }
        };
        rows.lines().map(str::to_owned).collect()
    }

    fn prompt(&self, prompt: &str) {
        let more = json!({ "prompt": prompt });
        self.place.hook(ONE, "UserPromptSubmit", more);
    }

    fn stop(&self, words: &str) {
        let more = json!({ "last_assistant_message": words });
        self.place.hook(ONE, "Stop", more);
    }

    /// Watches until it finds nothing new.
    fn settle(&self) {
        until("the stop is due", || {
            self.place.watch();
            self.place.agent(ONE)["stop_due"].is_null()
        });
        until("all turns are read", || self.place.watch()["turns"] == 0);
    }

    fn write(&self, lines: &[Value]) {
        append(&self.place.path("transcript.jsonl"), lines);
    }
}

/// Adds lines to the transcript, as the agent's program does.
fn append(path: &Path, lines: &[Value]) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

fn said(uuid: &str, text: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}})
}

fn answered(uuid: &str, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"type": "assistant", "uuid": uuid, "requestId": uuid, "message": {"content": content}})
}

#[test]
fn a_prompt_that_is_in_the_transcript_before_its_hook_commits_is_one_turn() {
    for turns in places() {
        turns.place.hook(ONE, "SessionStart", json!({}));
        for (number, prompt) in ["first", "second"].into_iter().enumerate() {
            turns.write(&[said(&format!("u{number}"), prompt)]);
            turns.place.watch();
            turns.prompt(prompt);
            turns.settle();
        }
        assert_eq!(turns.kept(), ["user: first", "user: second"]);
    }
}

#[test]
fn a_prompt_within_two_seconds_of_a_stop_makes_no_turn_a_second_time() {
    for turns in places() {
        turns.prompt("first");
        turns.stop("an answer");
        turns.write(&[said("u1", "first"), answered("u2", "an answer")]);
        turns.write(&[said("u3", "second")]);
        turns.place.watch();
        turns.prompt("second");
        turns.settle();
        let kept = ["user: first", "agent: an answer", "user: second"];
        assert_eq!(turns.kept(), kept);
    }
}

#[test]
fn a_prompt_whose_hook_has_a_newline_more_than_the_transcript_is_one_turn() {
    for turns in places() {
        turns.prompt("first\n");
        turns.write(&[said("u1", "first")]);
        turns.settle();
        turns.prompt("second\n");
        // A program may send context along with the prompt, as a separate text.
        let blocks =
            json!([{"type": "text", "text": "<opened a.rs>"}, {"type": "text", "text": "third"}]);
        let with_context = json!({"type": "user", "uuid": "u3", "message": {"content": blocks}});
        turns.write(&[said("u2", "second"), with_context]);
        turns.prompt("third");
        turns.settle();
        let kept = ["user: first~", "user: second", "user: <opened a.rs>~third"];
        assert_eq!(turns.kept(), kept);
    }
}

#[test]
fn the_same_prompt_three_times_is_three_turns() {
    for turns in places() {
        for uuid in ["u1", "u2", "u3"] {
            turns.prompt("go on");
            turns.write(&[said(uuid, "go on")]);
            if uuid != "u1" {
                turns.place.watch();
            }
        }
        turns.settle();
        assert_eq!(turns.kept(), ["user: go on"; 3]);
    }
}

#[test]
fn without_a_transcript_the_hooks_alone_make_turns() {
    for turns in places() {
        turns.prompt("first");
        turns.stop("an answer");
        turns.prompt("second");
        turns.settle();
        let kept = ["user: first", "agent: an answer", "user: second"];
        assert_eq!(turns.kept(), kept);
    }
}

/// Two watchers run without rest beside hooks and a transcript, which is written before, after and
/// between them.
#[test]
fn two_watchers_and_hooks_at_once_keep_every_turn_once() {
    let Turns { place, database } = places().into_iter().nth(1).unwrap();
    let watchers: Vec<_> = (0..2)
        .map(|_| {
            let mut watcher = place.world.tenure();
            watcher.args(["agent", "watch", "--every", "1ms"]);
            watcher.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    let (mut expected, mut sessions) = (Vec::new(), Vec::new());
    let end = tenure_testkit::campaign_end();
    let mut number = 0;
    while Instant::now() < end || number < 3 {
        // Every few turns a new session begins, whose first turns come from its hooks.
        let session = format!("00000000-0000-4000-8000-{:012}", number / 4);
        let transcript = place.path(&format!("{session}.jsonl"));
        let send = |name: &str, more: Value| {
            let mut body = place.body(&session, name, more);
            body["transcript_path"] = json!(transcript);
            place.begin(&body.to_string(), &mut place.world.tenure())
        };
        let (prompt, answer) = (format!("prompt {number}"), format!("answer {number}"));
        let line = said(&format!("u{number}"), &prompt);
        let hook = || send("UserPromptSubmit", json!({ "prompt": prompt }));
        let hook = match number % 3 {
            0 => {
                append(&transcript, &[line]);
                hook()
            }
            1 => {
                let hook = hook();
                append(&transcript, &[line]);
                hook
            }
            _ => {
                let mut hook = hook();
                hook.wait().unwrap();
                append(&transcript, &[line]);
                hook
            }
        };
        assert_eq!(code(&hook.wait_with_output().unwrap()), 0);
        append(&transcript, &[answered(&format!("a{number}"), &answer)]);
        let stop = send("Stop", json!({ "last_assistant_message": answer }));
        assert_eq!(code(&stop.wait_with_output().unwrap()), 0);
        expected.extend([format!("user: {prompt}"), format!("agent: {answer}")]);
        sessions.push(session);
        number += 1;
    }
    sessions.dedup();
    tenure_testkit::tell(format!(
        "{number} prompts and answers of {} sessions between two watchers",
        sessions.len()
    ));
    let turns = Turns { place, database };
    until("all is read", || {
        let agents = turns.place.agents();
        let is_over = agents.iter().all(|agent| agent["stop_due"].is_null());
        is_over && turns.kept().len() >= expected.len()
    });
    for mut watcher in watchers {
        signal(watcher.id(), libc::SIGTERM);
        assert!(watcher.wait().unwrap().success());
    }
    until("nothing more is read", || turns.place.watch()["turns"] == 0);
    let mut kept = turns.kept();
    kept.sort();
    expected.sort();
    assert_eq!(kept, expected);
}
