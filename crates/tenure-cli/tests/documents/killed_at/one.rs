//! `tenure doc update` of one document, killed.

use crate::killed_at::{Victim, at};
use crate::site::{assert_tidy, bytes, done, put};
use crate::world::World;

const BEFORE: &str = "{\"n\":1}\n";
const AFTER: &str = "{\"n\":2}\n";
const UPDATE: [&str; 6] = ["doc", "update", "a.json", "--", "sed", "s/1/2/"];

fn before(world: &World, directory: &str) {
    put(world, &format!("{directory}/a.json"), BEFORE);
}

#[test]
fn a_document_whose_update_is_killed_at_any_system_call_is_before_or_after() {
    let world = World::new();
    let place = Victim {
        world: &world,
        before,
        arguments: &UPDATE,
    };
    let points = place.points();
    assert_eq!(bytes(&world, "traced/a.json"), AFTER);
    let (mut befores, mut afters) = (0, 0);
    for (number, point) in points.iter().enumerate() {
        let (directory, told) = place.kill(number, point);
        let name = format!("{directory}/a.json");
        let found = done(&world, ["read", &name]);
        match found.as_str() {
            BEFORE if !told => befores += 1,
            AFTER => afters += 1,
            _ => panic!("{point:?}: {found}, told: {told}"),
        }
        assert_eq!(bytes(&world, &name), found, "{point:?}");
        // The next update is not held up by what is left.
        let update = ["update", "--no-wait", &name, "--", "sed", "s/[12]/3/"];
        done(&world, update);
        assert_eq!(bytes(&world, &name), "{\"n\":3}\n", "{point:?}");
        done(&world, ["clean", "--yes", &name]);
        assert_tidy(&at(&world, &directory, ""), &["a.json"]);
        assert_eq!(bytes(&world, &name), "{\"n\":3}\n", "{point:?}");
    }
    eprintln!(
        "killed {} times: {befores} before, {afters} after",
        points.len()
    );
    assert!(befores > 10 && afters > 0, "{befores} and {afters}");
}

#[test]
fn a_document_whose_creation_is_killed_at_any_system_call_is_there_whole_or_not_at_all() {
    let world = World::new();
    let arguments = [
        "doc",
        "update",
        "--create",
        "{\"n\":1}",
        "a.json",
        "--",
        "sed",
        "s/1/2/",
    ];
    let place = Victim {
        world: &world,
        before: |_, _| (),
        arguments: &arguments,
    };
    let points = place.points();
    let made = bytes(&world, "traced/a.json");
    for (number, point) in points.iter().enumerate() {
        let (directory, told) = place.kill(number, point);
        let path = at(&world, &directory, "a.json");
        match path.exists() {
            false => assert!(!told, "{point:?}"),
            true => assert_eq!(
                bytes(&world, &format!("{directory}/a.json")),
                made,
                "{point:?}"
            ),
        }
        // The lock file comes first: without it there is nothing to clean.
        if path.exists() || at(&world, &directory, ".a.json.lock").exists() {
            done(&world, ["clean", "--yes", path.to_str().unwrap()]);
        }
        assert_tidy(&at(&world, &directory, ""), &["a.json"]);
    }
}
