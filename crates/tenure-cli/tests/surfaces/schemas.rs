//! Answers of the command with `--json` have the form that the schemas of their operations say.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{World, code};

/// Validates answers against their operations' schemas. Debian's package is python3-jsonschema.
const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator
given = json.load(sys.stdin)
for name, schema, answer in given:
    for error in Draft202012Validator(schema).iter_errors(answer):
        print(name, error.json_path, error.message)
";

#[test]
fn every_answer_of_the_command_has_the_form_that_its_schema_says() {
    let world = World::new();
    let operations = world.json(["schema", "operations"])["operations"].take();
    let response = |name: &str| {
        let mut all = operations.as_array().unwrap().iter();
        let found = all.find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("there is no {name}"))["response"].clone()
    };
    let mut given = Vec::new();
    let mut answers = |name: &str, words: &[&str]| -> Value {
        let answer = world.json(words.iter().copied());
        given.push(json!([name, response(name), answer]));
        answer
    };
    let held = answers("acquire", &["lock", "x", "y=read", "--meta", "{\"a\":1}"]);
    let leases = held["leases"].as_array().unwrap().iter();
    let ids: Vec<String> = leases
        .map(|lease| lease["lease"].as_str().unwrap().to_owned())
        .collect();
    let token = held["leases"][0]["token"].to_string();
    answers("ls", &["ls"]);
    answers("check", &["check", "x", &token]);
    answers("renew", &["renew", &ids[0]]);
    let shared = answers("acquire", &["lock", "z=upgradeable"]);
    let shared = shared["leases"][0]["lease"].as_str().unwrap().to_owned();
    answers("upgrade", &["upgrade", &shared]);
    answers("downgrade", &["downgrade", &shared]);
    answers("break", &["break", &ids[1], "--reason", "a test", "--yes"]);
    answers("release", &["release", &ids[0]]);
    answers("audit", &["audit"]);
    answers("recover", &["recover", "--dry-run"]);

    for name in ["a.json", "b.json"] {
        fs::write(world.path(name), "{\"n\": 1.50}").unwrap();
    }
    answers("doc.read", &["doc", "read", "a.json"]);
    answers("doc.read", &["doc", "read", "a.json", "b.json"]);
    answers(
        "doc.update",
        &["doc", "update", "--json", "a.json", "--", "sh", "-c", "cat"],
    );
    answers("doc.clean", &["doc", "clean", "a.json", "--yes"]);

    answers("ledger.init", &["ledger", "init", "g"]);
    answers(
        "ledger.append",
        &["ledger", "append", "g", "{\"type\":\"begun\"}"],
    );
    answers("ledger.claim", &["ledger", "claim", "g", "1"]);
    answers("ledger.claims", &["ledger", "claims", "g"]);
    answers("ledger.log", &["ledger", "log", "g"]);
    answers("ledger.show", &["ledger", "show", "g", "1"]);
    answers("ledger.verify", &["ledger", "verify", "g"]);
    answers("ledger.release", &["ledger", "release", "g", "1"]);
    answers("ledger.reap", &["ledger", "reap", "g"]);

    answers("board.init", &["board", "init"]);
    answers("board.gate.define", &["board", "gate", "define", "tests"]);
    answers(
        "board.add",
        &["board", "add", "One", "--id", "one", "--gate", "tests"],
    );
    answers(
        "board.add",
        &["board", "add", "Two", "--id", "two", "--label", "web"],
    );
    answers("board.depend", &["board", "depend", "one", "--on", "two"]);
    answers(
        "board.gate.judge",
        &["board", "gate", "pass", "one", "tests"],
    );
    answers("board.set", &["board", "set", "one", "priority=1"]);
    answers("board.note", &["board", "note", "one", "a note"]);
    answers("board.show", &["board", "show", "one"]);
    answers("board.next", &["board", "next", "--claim"]);
    answers("board.renew", &["board", "renew", "two"]);
    answers("board.release", &["board", "release", "two"]);
    answers("board.claim", &["board", "claim", "two"]);
    answers("board.done", &["board", "done", "two"]);
    answers("board.ls", &["board", "ls"]);
    answers("board.events", &["board", "events"]);
    answers("board.verify", &["board", "verify"]);
    answers("board.delete", &["board", "delete", "one"]);

    fs::create_dir(world.path("source")).unwrap();
    fs::write(world.path("source/file"), "text").unwrap();
    answers("publish.put", &["publish", "source", "target"]);
    answers("publish.verify", &["publish", "--verify", "target"]);
    answers("publish.history", &["publish", "--history", "target"]);

    answers("op.ls", &["op", "ls"]);
    answers("agent.ls", &["agent", "ls"]);
    answers("status", &["status"]);
    answers("doctor", &["doctor"]);

    // The check finds a wrong answer: that of another operation.
    let wrong = json!([["audit", response("audit"), { "leases": [] }]]);
    assert!(!problems(&wrong).is_empty());
    let found = problems(&Value::from(given));
    assert!(found.is_empty(), "{found}");
}

/// Returns a line for each answer that does not have its form.
fn problems(given: &Value) -> String {
    let mut python = Command::new("/usr/bin/python3");
    let mut python = python
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = python.stdin.take().unwrap();
    input.write_all(given.to_string().as_bytes()).unwrap();
    drop(input);
    let output = python.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "install python3-jsonschema: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
