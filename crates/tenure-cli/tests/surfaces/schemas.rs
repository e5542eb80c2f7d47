//! What the command answers with `--json` has the form that the schema of its operation says.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{World, code};

/// Validates answers against the schemas of their operations. Debian's package python3-jsonschema.
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
    let held = answers(
        "acquire",
        &["lock", "x=upgradeable", "y", "--meta", "{\"a\":1}"],
    );
    let leases = held["leases"].as_array().unwrap().iter();
    let ids: Vec<String> = leases
        .map(|lease| lease["lease"].as_str().unwrap().to_owned())
        .collect();
    let token = held["leases"][0]["token"].to_string();
    answers("ls", &["ls"]);
    answers("check", &["check", "x", &token]);
    answers("renew", &["renew", &ids[0]]);
    answers("upgrade", &["upgrade", &ids[0]]);
    answers("downgrade", &["downgrade", &ids[0]]);
    answers("break", &["break", &ids[1], "--reason", "a test", "--yes"]);
    answers("release", &["release", &ids[0]]);
    answers("audit", &["audit"]);

    // The check sees what is wrong: an answer of another operation.
    let wrong = json!([["audit", response("audit"), { "leases": [] }]]);
    assert!(!problems(&wrong).is_empty());
    let found = problems(&Value::from(given));
    assert!(found.is_empty(), "{found}");
}

/// Returns a line for everything that does not have its form.
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
