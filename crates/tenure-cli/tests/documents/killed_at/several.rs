//! `tenure doc update` of two documents in two directories, killed.

use std::fs;

use crate::killed_at::{Victim, at};
use crate::site::{assert_tidy, bytes, done, put};
use crate::world::World;

pub const BEFORE: [&str; 2] = ["{\"n\":1}\n", "{\"m\":1}\n"];
pub const AFTER: [&str; 2] = ["{\"n\":2}\n", "{\"m\":2}\n"];
pub const UPDATE: [&str; 7] = [
    "doc", "update", "x/a.json", "y/b.json", "--", "sed", "s/1/2/g",
];

pub fn before(world: &World, directory: &str) {
    for (folder, name, content) in [("x", "a.json", BEFORE[0]), ("y", "b.json", BEFORE[1])] {
        fs::create_dir(at(world, directory, folder)).unwrap();
        put(world, &format!("{directory}/{folder}/{name}"), content);
    }
}

#[test]
fn several_documents_whose_update_is_killed_at_any_system_call_change_all_or_none() {
    let world = World::new();
    let place = Victim {
        world: &world,
        before,
        arguments: &UPDATE,
    };
    let points = place.points();
    let both = |directory: &str| {
        ["x/a.json", "y/b.json"].map(|name| bytes(&world, &format!("{directory}/{name}")))
    };
    assert_eq!(both("traced"), AFTER);
    let (mut befores, mut afters, mut finished) = (0, 0, 0);
    for (number, point) in points.iter().enumerate() {
        let (directory, told) = place.kill(number, point);
        let [a, b] = ["x/a.json", "y/b.json"].map(|name| format!("{directory}/{name}"));
        let left = both(&directory);
        // The next reader finishes both documents, whichever it reads.
        match number % 3 {
            0 => done(&world, ["read", &a]),
            1 => done(&world, ["read", &b]),
            _ => done(&world, ["read", &a, &b]),
        };
        let found = both(&directory);
        match found.each_ref().map(String::as_str) {
            BEFORE if !told => befores += 1,
            AFTER => afters += 1,
            _ => panic!("{point:?}: {found:?}, told: {told}"),
        }
        finished += usize::from(left != found);
        for name in [&a, &b] {
            done(&world, ["clean", "--yes", name]);
        }
        assert_tidy(&at(&world, &directory, "x"), &["a.json"]);
        assert_tidy(&at(&world, &directory, "y"), &["b.json"]);
        assert_eq!(both(&directory), found, "{point:?}");
    }
    eprintln!("{befores} before, {afters} after, {finished} of them finished by a reader");
    assert!(befores > 10 && afters > 3 && finished > 3);
}
