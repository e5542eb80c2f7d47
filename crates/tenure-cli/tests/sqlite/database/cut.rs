//! Databases that are cut short, or full of nonsense.

use std::fs::{self, OpenOptions};

use crate::database::{fold_the_log, until_let_in};
use crate::holder::Holder;
use crate::process::{held, take, the_lease, timed};
use crate::world::{World, code, is_alive, text, until};

fn cut(world: &World, name: &str, length: u64) {
    let path = world.path("store").join(name);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

#[test]
fn a_database_cut_in_half_is_refused_as_corrupt_and_left_as_it_is() {
    let world = World::new();
    world.lock(["x", "--ttl", "1h"]);
    fold_the_log(&world);
    let length = fs::metadata(world.path("store/tenure.db")).unwrap().len();
    assert!(length > 8192);
    for left in [length / 2, 4096, 4097, 100, 10] {
        cut(&world, "tenure.db", left);
        let before = fs::read(world.path("store/tenure.db")).unwrap();
        for arguments in [&["lock", "y", "--no-wait"][..], &["run", "x", "--", "true"]] {
            let output = world.call(arguments.iter().copied());
            assert_eq!(code(&output), 65, "{left}: {output:?}");
            let said = text(&output.stderr);
            assert!(said.contains("tenure.db"), "{said}");
        }
        assert_eq!(fs::read(world.path("store/tenure.db")).unwrap(), before);
    }
}

#[test]
fn nonsense_in_the_place_of_the_database_is_refused_and_left_as_it_is() {
    let world = World::new();
    take(&world, "x");
    fold_the_log(&world);
    let nonsense = b"this is not a database. ".repeat(1000);
    fs::write(world.path("store/tenure.db"), &nonsense).unwrap();
    let output = world.call(["lock", "x", "--no-wait"]);
    assert!(matches!(code(&output), 65 | 78), "{output:?}");
    assert!(text(&output.stderr).contains("tenure.db"), "{output:?}");
    assert_eq!(fs::read(world.path("store/tenure.db")).unwrap(), nonsense);
}

/// Makes a holder, and cuts its database to nothing. Returns the holder and its token.
fn cut_under_a_holder(world: &World) -> (Holder, u64) {
    take(world, "x");
    fold_the_log(world);
    let holder = Holder::start(world, ["x"]);
    let token = the_lease(world)["token"].as_u64().unwrap();
    for name in ["tenure.db", "tenure.db-wal"] {
        cut(world, name, 0);
    }
    (holder, token)
}

#[test]
fn nobody_is_let_into_a_database_cut_to_nothing_while_the_holder_lives() {
    let world = World::new();
    let (mut holder, old) = cut_under_a_holder(&world);
    let script = format!("test -d /proc/{} && echo two writers", holder.command);
    let output = world.run(["--no-wait", "x", "--", "sh", "-c", &script]);
    assert!(!text(&output.stdout).contains("two writers"), "{output:?}");
    holder.let_go();
    holder.wait();
    until("it is free", || world.is_free("x"));
    assert!(take(&world, "x") > old);
}

#[test]
fn the_holder_of_a_database_cut_to_nothing_stops_before_anyone_is_let_in() {
    let world = World::new();
    let (mut holder, old) = cut_under_a_holder(&world);
    assert_eq!(holder.code(), 79);
    let new = until_let_in(&world, holder.command, "replaced");
    assert!(new > old, "{new} after {old}");
    assert!(!is_alive(holder.command));
    assert!(held(&world).is_empty());
}

#[test]
fn a_newcomer_to_a_database_cut_to_nothing_is_told_at_once() {
    let world = World::new();
    let (_holder, _) = cut_under_a_holder(&world);
    let (output, took) = timed(|| world.run(["--no-wait", "x", "--", "true"]));
    assert!(matches!(code(&output), 65 | 69 | 75), "{output:?}");
    assert!(took.as_secs() < 5, "{took:?}: {output:?}");
}
