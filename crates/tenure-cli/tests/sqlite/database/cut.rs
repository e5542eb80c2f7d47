//! Cut short, or full of nonsense.

use std::fs::{self, OpenOptions};

use crate::holder::Holder;
use crate::process::{held, take, the_lease, token};
use crate::world::{World, code, is_alive, text, until};

fn cut(world: &World, name: &str, length: u64) {
    let path = world.path("store").join(name);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

/// All of it is in the database itself, and the log is empty.
fn fold_the_log(world: &World) {
    let mut database = crate::other_sqlite::Database::of(world);
    database.change("PRAGMA wal_checkpoint(TRUNCATE)");
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

#[test]
fn a_database_cut_to_nothing_under_a_holder_lets_nobody_in_before_it_stopped() {
    let world = World::new();
    take(&world, "x");
    fold_the_log(&world);
    let mut holder = Holder::start(&world, ["x"]);
    let old = the_lease(&world)["token"].as_u64().unwrap();
    for name in ["tenure.db", "tenure.db-wal"] {
        cut(&world, name, 0);
    }
    let script = format!(
        "test -d /proc/{} && echo two writers; echo $TENURE_TOKEN",
        holder.command
    );
    let mut new = 0;
    until("a newcomer is let in", || {
        let output = world.run(["--no-wait", "x", "--", "sh", "-c", &script]);
        match code(&output) {
            0 => new = token(&output),
            65 | 69 | 75 => assert!(!output.stderr.is_empty()),
            _ => panic!("{output:?}"),
        }
        new > 0
    });
    assert!(new > old, "{new} after {old}");
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
    assert!(held(&world).is_empty());
}
