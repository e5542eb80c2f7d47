//! Spellings that people bring along from flock and from other commands.

use crate::holder::Holder;
use crate::world::{World, code, text};

#[test]
fn run_has_the_short_flags_of_flock() {
    let world = World::new();
    let reader = Holder::start(&world, ["-s", "x"]);
    assert_eq!(code(&world.call(["run", "-s", "-n", "x", "--", "true"])), 0);
    assert_eq!(
        code(&world.call(["run", "-x", "-n", "x", "--", "true"])),
        75
    );
    let waited = world.call(["run", "-w", "100ms", "x", "--", "true"]);
    assert_eq!(code(&waited), 75);
    assert!(text(&waited.stderr).contains("within 100ms"), "{waited:?}");
    assert_eq!(code(&world.call(["run", "-s", "-x", "x", "--", "true"])), 2);
    drop(reader);
}

#[test]
fn unlock_releases_and_list_lists() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let listed = world.call(["list"]);
    assert!(text(&listed.stdout).contains(&lease), "{listed:?}");
    assert_eq!(code(&world.call(["unlock", &lease])), 0);
    assert!(world.is_free("x"));
}

#[test]
fn a_cursor_that_no_page_gave_is_answered_alike() {
    let world = World::new();
    world.lock(["x"]);
    for command in ["ls", "audit"] {
        let output = world.call([command, "--after", "nonsense"]);
        assert_eq!(code(&output), 2, "{output:?}");
        let told = text(&output.stderr);
        assert!(told.contains("of the page before"), "{told}");
    }
}
