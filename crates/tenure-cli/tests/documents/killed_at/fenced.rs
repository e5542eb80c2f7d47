//! `tenure doc update --token`, killed: the token is remembered no later than the document.

use crate::killed_at::{Place, at};
use crate::site::{assert_tidy, bytes, done, put, refused, write};
use crate::world::{World, code};

const BEFORE: &str = "{\"n\": 1}\n";
const AFTER: &str = "{\"n\": 2}\n";
const UPDATE: [&str; 8] = [
    "doc", "update", "--token", "build#7", "a.json", "--", "sed", "s/1/2/",
];

fn before(world: &World, directory: &str) {
    let name = format!("{directory}/a.json");
    put(world, &name, BEFORE);
    // Last written under token 5.
    let written = write(world, BEFORE.as_bytes(), ["--token", "build#5", &name]);
    assert_eq!(code(&written), 0, "{written:?}");
}

#[test]
fn a_fenced_update_killed_at_any_system_call_never_leaves_a_document_newer_than_its_fence() {
    let world = World::new();
    let place = Place {
        world: &world,
        before,
        arguments: &UPDATE,
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
        // Token 6 is older than the one that was being written with.
        let older = write(&world, b"{\"n\": 6}", ["--token", "build#6", &name]);
        match found.as_str() {
            AFTER => {
                refused(&older, 77);
                assert_eq!(bytes(&world, &name), AFTER, "{point:?}");
                afters += 1;
            }
            _ if code(&older) == 77 => fenced_befores += 1,
            _ => {
                assert_eq!(code(&older), 0, "{point:?}: {older:?}");
                befores += 1;
            }
        }
        // Whatever happened, the fence of before is not forgotten, and the new holder goes on.
        refused(&write(&world, b"{}", ["--token", "build#4", &name]), 77);
        let newer = write(&world, b"{\"n\": 8}\n", ["--token", "build#8", &name]);
        assert_eq!(code(&newer), 0, "{point:?}: {newer:?}");
        done(&world, ["clean", "--yes", &name]);
        assert_tidy(&at(&world, &directory, ""), &["a.json"]);
        assert_eq!(bytes(&world, &name), "{\"n\": 8}\n", "{point:?}");
        refused(&write(&world, b"{}", ["--token", "build#7", &name]), 77);
    }
    eprintln!("before {befores}, before and fenced {fenced_befores}, after {afters}");
    assert!(befores > 0 && fenced_befores > 0 && afters > 0);
}
