//! The same checks of ten operations, once through the command and once through the pipe.

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
            .args(arguments(operation, &request));
        let output = command.arg("--json").output().unwrap();
        let mut answer = parsed(&output.stdout);
        match code(&output) {
            0 => Ok(answer),
            _ => Err(answer["error"].take()),
        }
    }
}

/// Returns the words of the command for a request.
fn arguments(operation: &str, request: &Value) -> Vec<String> {
    let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
    let mut words: Vec<String> = match operation {
        "acquire" => vec!["lock".into()],
        other => other.split('.').map(str::to_owned).collect(),
    };
    let positional: &[&str] = match operation {
        "renew" | "release" => &["lease"],
        "check" => &["resource"],
        _ => &[],
    };
    words.extend(positional.iter().map(|name| text(name)));
    if operation == "check" {
        words.push(request["token"].to_string());
    }
    let resources = request["resources"].as_array().into_iter().flatten();
    words.extend(resources.map(|one| one.as_str().unwrap().to_owned()));
    for option in ["ttl", "wait", "purpose", "key"] {
        if request[option].is_string() {
            words.extend([format!("--{option}"), text(option)]);
        }
    }
    words
}

/// Runs a check on both surfaces, each with a store of its own.
fn on_both(check: impl Fn(&mut dyn Surface)) {
    check(&mut Command(&World::new()));
    let world = World::new();
    check(&mut Pipe::start(&world));
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
