//! One set of checks of ten operations, once through the command and once through the pipe.

use std::io::Write;
use std::process::{self, Stdio};

use serde_json::{Value, json};

use crate::pipe::Pipe;
use crate::world::{World, code, json as parsed};

/// A surface: an operation and its request go in, the response or the error comes out.
trait Surface {
    fn call(&mut self, owner: &str, operation: &str, request: Value) -> Result<Value, Value>;
}

impl Surface for Pipe {
    fn call(&mut self, owner: &str, operation: &str, request: Value) -> Result<Value, Value> {
        Pipe::call(self, owner, operation, request)
    }
}

/// The command, whose arguments are made from the request.
struct Command<'a>(&'a World);

impl Surface for Command<'_> {
    fn call(&mut self, owner: &str, operation: &str, request: Value) -> Result<Value, Value> {
        let mut command = self.0.tenure();
        command
            .env("TENURE_OWNER", owner)
            .args(arguments(operation, &request))
            .arg("--json");
        let output = with_input(command, &request["content"].to_string());
        let mut answer = parsed(&output.stdout);
        match code(&output) {
            0 => Ok(answer),
            _ => Err(answer["error"].take()),
        }
    }
}

/// Runs a command to its end, with a text on its standard input.
fn with_input(mut command: process::Command, text: &str) -> process::Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A command that does not read its input may have ended by now.
    drop(input.write_all(text.as_bytes()));
    drop(input);
    child.wait_with_output().unwrap()
}

/// Returns the arguments of the command for a request.
fn arguments(operation: &str, request: &Value) -> Vec<String> {
    let text = |name: &str| match &request[name] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut words: Vec<String> = match operation {
        "acquire" => vec!["lock".into()],
        other => other.split('.').map(str::to_owned).collect(),
    };
    let positional: &[&str] = match operation {
        "renew" | "release" => &["lease"],
        "check" => &["resource", "token"],
        "board.done" => &["issue"],
        "ledger.init" | "ledger.log" => &["directory"],
        "ledger.append" => &["directory", "event"],
        "ledger.claim" => &["directory", "node"],
        "doc.write" => &["file"],
        _ => &[],
    };
    words.extend(positional.iter().map(|name| text(name)));
    if operation == "board.add" {
        let field = |name: &str| request["issue"][name].as_str().unwrap().to_owned();
        words.extend([field("title"), "--id".into(), field("id")]);
    }
    if request["claim"] == true {
        words.push("--claim".into());
    }
    let files = request["files"].as_array().into_iter().flatten();
    words.extend(files.map(|file| file.as_str().unwrap().to_owned()));
    let resources = request["resources"].as_array().into_iter().flatten();
    words.extend(resources.map(|one| one.as_str().unwrap().to_owned()));
    let mut options = vec!["ttl", "wait", "purpose", "expect"];
    if operation == "board.done" {
        options.push("token");
    }
    for option in options {
        if !request[option].is_null() {
            words.extend([format!("--{option}"), text(option)]);
        }
    }
    words
}

/// Runs a check on both surfaces, each with a store of its own.
fn on_both(check: impl Fn(&mut dyn Surface)) {
    check(&mut Command(&World::new()));
    let world = World::new();
    let mut pipe = Pipe::start(&world);
    check(&mut pipe);
    assert!(pipe.end().success());
}

#[test]
fn a_lock_is_taken_seen_checked_renewed_and_released() {
    on_both(|surface| {
        let taken = surface.call(
            "ana",
            "acquire",
            json!({
                "resources": ["map:a=read", "deploy"], "ttl": "60s", "purpose": "release",
            }),
        );
        let taken = taken.unwrap();
        let leases = taken["leases"].as_array().unwrap();
        assert_eq!(leases.len(), 2, "{taken}");
        let deploy = leases
            .iter()
            .find(|lease| lease["resource"] == "name:deploy")
            .unwrap();
        assert_eq!(
            (&deploy["owner"], &deploy["purpose"]),
            (&"ana".into(), &"release".into())
        );
        let id = &deploy["lease"];

        let listed = surface.call("ana", "ls", json!({})).unwrap();
        assert_eq!(listed["held"].as_array().unwrap().len(), 2, "{listed}");
        let good = json!({ "resource": "name:deploy", "token": deploy["token"] });
        assert_eq!(surface.call("ana", "check", good).unwrap()["good"], true);
        let never = json!({ "resource": "name:deploy", "token": 1 });
        assert_eq!(
            surface.call("ana", "check", never).unwrap_err()["kind"],
            "not_allowed"
        );

        let renewed = surface.call("ana", "renew", json!({ "lease": id, "ttl": "120s" }));
        assert_eq!(renewed.unwrap()["leases"][0]["token"], deploy["token"]);
        let others = surface
            .call("bob", "renew", json!({ "lease": id }))
            .unwrap_err();
        assert_eq!(others["kind"], "not_allowed", "{others}");

        let released = surface
            .call("ana", "release", json!({ "lease": id }))
            .unwrap();
        assert_eq!(released["leases"][0]["lease"], *id);
        let again = surface
            .call("ana", "release", json!({ "lease": id }))
            .unwrap_err();
        assert_eq!(again["kind"], "not_allowed", "{again}");
        let audit = surface.call("ana", "audit", json!({})).unwrap();
        let actions = audit["entries"].as_array().unwrap().iter();
        let actions: Vec<_> = actions
            .map(|entry| entry["action"].as_str().unwrap())
            .collect();
        assert!(
            actions.contains(&"acquire") && actions.contains(&"release"),
            "{actions:?}"
        );
    });
}

#[test]
fn a_lock_that_somebody_has_is_refused_with_its_holder() {
    on_both(|surface| {
        let held = surface
            .call("ana", "acquire", json!({ "resources": ["x"] }))
            .unwrap();
        let asked = json!({ "resources": ["x"], "wait": "0s" });
        let refused = surface.call("bob", "acquire", asked).unwrap_err();
        assert_eq!(
            (&refused["kind"], &refused["resource"]),
            (&"busy".into(), &"name:x".into())
        );
        assert_eq!(refused["holders"], held["leases"]);
    });
}

#[test]
fn an_issue_is_added_claimed_once_and_done() {
    on_both(|surface| {
        let new = json!({ "issue": { "id": "fix-login", "title": "Fix the login" } });
        let added = surface.call("ana", "board.add", new).unwrap();
        assert_eq!(added["issues"][0]["state"], "open", "{added}");
        let next = json!({ "claim": true, "ttl": "60s" });
        let claimed = surface.call("ana", "board.next", next.clone()).unwrap();
        let claim = &claimed["issues"][0]["claim"];
        assert_eq!(claim["owner"], "ana", "{claimed}");
        let busy = surface.call("bob", "board.next", next.clone()).unwrap_err();
        assert_eq!(busy["kind"], "busy", "{busy}");
        let others = json!({ "issue": "fix-login", "token": claim["token"] });
        let others = surface.call("bob", "board.done", others).unwrap_err();
        assert_eq!(others["kind"], "not_allowed", "{others}");
        let done = json!({ "issue": "fix-login", "token": claim["token"] });
        let done = surface.call("ana", "board.done", done).unwrap();
        assert_eq!(done["issues"][0]["state"], "done", "{done}");
        let left = surface.call("ana", "board.next", next).unwrap_err();
        assert_eq!(left["kind"], "not_found", "{left}");
    });
}

#[test]
fn an_event_gets_its_number_and_a_node_one_owner() {
    on_both(|surface| {
        let made = surface.call("ana", "ledger.init", json!({ "directory": "proof" }));
        assert!(made.unwrap()["ledger"].is_string());
        let event = json!({ "directory": "proof", "event": { "type": "begun" } });
        let appended = surface.call("ana", "ledger.append", event).unwrap();
        assert_eq!(appended, json!({ "sequence": 1 }));
        let late = json!({ "directory": "proof", "event": { "type": "late" }, "expect": 0 });
        let late = surface.call("ana", "ledger.append", late).unwrap_err();
        assert_eq!(
            (&late["kind"], &late["actual"]),
            (&"conflict".into(), &1.into())
        );
        let node = json!({ "directory": "proof", "node": "1.2" });
        let claimed = surface.call("ana", "ledger.claim", node.clone()).unwrap();
        assert_eq!(claimed["claims"][0]["token"], 2, "{claimed}");
        let refused = surface.call("bob", "ledger.claim", node).unwrap_err();
        assert_eq!(refused["holders"][0]["owner"], "ana", "{refused}");
        let log = surface
            .call("ana", "ledger.log", json!({ "directory": "proof" }))
            .unwrap();
        assert_eq!(log["events"][0]["event"]["type"], "begun", "{log}");
    });
}

#[test]
fn a_document_is_written_only_over_the_version_that_was_read() {
    on_both(|surface| {
        let new = json!({ "file": "a.json", "content": { "n": 1 }, "expect": "absent" });
        let first = surface.call("ana", "doc.write", new.clone()).unwrap();
        let read = surface
            .call("ana", "doc.read", json!({ "files": ["a.json"] }))
            .unwrap();
        assert_eq!(
            read,
            json!({ "version": first["version"], "document": { "n": 1 } })
        );
        let again = surface.call("ana", "doc.write", new).unwrap_err();
        assert_eq!(again["kind"], "conflict", "{again}");
        let next = json!({ "file": "a.json", "content": { "n": 2 }, "expect": first["version"] });
        surface.call("ana", "doc.write", next).unwrap();
        let read = surface
            .call("ana", "doc.read", json!({ "files": ["a.json"] }))
            .unwrap();
        assert_eq!(read["document"]["n"], 2, "{read}");
    });
}
