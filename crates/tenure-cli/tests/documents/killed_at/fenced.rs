//! `tenure doc update --token`, killed: the token is remembered no later than the document.

use serde_json::Value;

use crate::killed_at::{Victim, at};
use crate::site::{assert_tidy, bytes, done, put, write};
use crate::world::{World, code, text};

const BEFORE: &str = "{\"n\":1}\n";
const AFTER: &str = "{\"n\":2}\n";

/// The token that every document remembers before the update: that of a writer long ago.
const OLD: u64 = 5;

/// Makes the document, and the note of a write under the old token.
fn before(world: &World, directory: &str) {
    put(world, &format!("{directory}/a.json"), BEFORE);
    let fence = serde_json::json!({
        "store": world.store(),
        "resource": "name:build",
        "token": OLD,
    });
    let note = serde_json::json!({ "fence": fence }).to_string();
    put(world, &format!("{directory}/.a.json.note"), &note);
}

/// Returns the token that a document remembers.
fn remembered(world: &World, directory: &str) -> u64 {
    let note = bytes(world, &format!("{directory}/.a.json.note"));
    let note: Value = serde_json::from_str(&note).unwrap();
    note["fence"]["token"].as_u64().unwrap()
}

#[test]
fn a_fenced_update_killed_at_any_system_call_never_leaves_a_document_newer_than_its_fence() {
    // A file store is asked with a few system calls only, which are no concern of this test.
    let world = World::file();
    let run = world.run(["build", "--", "sh", "-c", "echo $TENURE_TOKEN"]);
    let new: u64 = text(&run.stdout).trim().parse().unwrap();
    let token = format!("build#{new}");
    let place = Victim {
        world: &world,
        before,
        arguments: &[
            "doc", "update", "--token", &token, "a.json", "--", "sed", "s/1/2/",
        ],
    };
    let points = place.points();
    let (mut befores, mut fenced_befores, mut afters) = (0, 0, 0);
    for (number, point) in points.iter().enumerate() {
        let (directory, told) = place.kill(number, point);
        let name = format!("{directory}/a.json");
        let found = done(&world, ["read", &name]);
        assert!(
            found == AFTER || (found == BEFORE && !told),
            "{point:?}: {found}"
        );
        // In every case the earlier fence is not forgotten.
        match (found.as_str(), remembered(&world, &directory)) {
            (AFTER, token) if token == new => afters += 1,
            (BEFORE, token) if token == new => fenced_befores += 1,
            (BEFORE, OLD) => befores += 1,
            (found, token) => panic!("{point:?}: {found} under token {token}"),
        }
        // The holder itself goes on.
        let again = write(&world, b"{\"n\":8}\n", ["--token", &token, &name]);
        assert_eq!(code(&again), 0, "{point:?}: {again:?}");
        done(&world, ["clean", "--yes", &name]);
        assert_tidy(&at(&world, &directory, ""), &["a.json"]);
        assert_eq!(bytes(&world, &name), "{\"n\":8}\n", "{point:?}");
        assert_eq!(remembered(&world, &directory), new);
    }
    eprintln!("before {befores}, before and fenced {fenced_befores}, after {afters}");
    assert!(befores > 0 && fenced_befores > 0 && afters > 0);
}
