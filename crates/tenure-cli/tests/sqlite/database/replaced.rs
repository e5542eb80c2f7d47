//! Deleted, or another file in its place.

use std::fs;
use std::process::Command;

use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::{Process, TELL, assert_nothing_is_left, take, the_lease, token};
use crate::world::{World, code, is_alive, text, until};

/// A way to lose the database.
type Lose = fn(&World);

const FILES: [&str; 3] = ["tenure.db", "tenure.db-wal", "tenure.db-shm"];

fn deleted(world: &World) {
    fs::remove_file(world.path("store/tenure.db")).unwrap();
}

fn deleted_with_its_log(world: &World) {
    for name in FILES {
        fs::remove_file(world.path("store").join(name)).unwrap();
    }
}

/// Puts back what `save` copied.
fn replaced_by_an_older_copy(world: &World) {
    deleted_with_its_log(world);
    for name in FILES {
        fs::rename(
            world.path("saved").join(name),
            world.path("store").join(name),
        )
        .unwrap();
    }
}

/// One file renamed over the other: there is no moment without a database.
fn renamed_over(world: &World) {
    let (saved, path) = (world.path("saved/tenure.db"), world.path("store/tenure.db"));
    fs::rename(saved, path).unwrap();
}

fn save(world: &World) {
    fs::create_dir(world.path("saved")).unwrap();
    for name in FILES {
        let copied = Command::new("cp")
            .arg("-a")
            .arg(world.path("store").join(name))
            .arg(world.path("saved").join(name))
            .status();
        assert!(copied.unwrap().success());
    }
}

const WAYS: [(&str, Lose); 4] = [
    ("deleted", deleted),
    ("deleted with its log", deleted_with_its_log),
    ("replaced by an older copy", replaced_by_an_older_copy),
    ("renamed over", renamed_over),
];

#[test]
fn a_holder_of_a_lost_database_stops_and_nobody_is_let_in_before() {
    for (way, lose) in WAYS {
        let world = World::new();
        take(&world, "x");
        save(&world);
        let mut holder = Holder::start(&world, ["x"]);
        let old = the_lease(&world)["token"].as_u64().unwrap();
        lose(&world);
        // Says so if the old command still runs under the new one.
        let script = format!(
            "test -d /proc/{} && echo two writers; echo $TENURE_TOKEN",
            holder.command
        );
        let mut new = 0;
        until("a newcomer is let in", || {
            let output = world.run(["--no-wait", "x", "--", "sh", "-c", &script]);
            match code(&output) {
                0 => new = token(&output),
                69 | 75 => {
                    let said = text(&output.stderr);
                    assert!(is_alive(holder.command) || !said.is_empty());
                    let clear = said.contains("replaced") || said.contains("held");
                    assert!(clear, "{way}: {said}");
                }
                _ => panic!("{way}: {output:?}"),
            }
            new > 0
        });
        assert!(new > old, "{way}: {new} after {old}");
        assert_eq!(holder.code(), 79, "{way}");
        assert!(!is_alive(holder.command), "{way}");
        Database::of(&world).assert_whole();
        assert_nothing_is_left(&world);
    }
}

#[test]
fn a_waiter_of_a_lost_database_has_the_lock_of_the_new_one_when_the_holder_has_stopped() {
    for (way, lose) in WAYS {
        let world = World::new();
        take(&world, "x");
        save(&world);
        let mut holder = Holder::start(&world, ["x"]);
        let old = the_lease(&world)["token"].as_u64().unwrap();
        let waiter = Process::in_line(&world, "x", "waiter");
        lose(&world);
        let newcomer = ["run", "--wait", "60s", "--owner", "newcomer", "x"];
        let newcomer = Process::tenure(&world, newcomer.into_iter().chain(TELL));
        assert_eq!(holder.code(), 79, "{way}");
        let (waiter, newcomer) = (waiter.token(), newcomer.token());
        assert!(
            waiter > old && newcomer > old && waiter != newcomer,
            "{way}"
        );
        assert_nothing_is_left(&world);
    }
}

#[test]
fn leases_of_a_deleted_database_are_gone_and_their_tokens_stay_behind() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h"]);
    let old = the_lease(&world)["token"].as_u64().unwrap();
    deleted_with_its_log(&world);
    assert_eq!(code(&world.call(["release", &lease])), 66);
    assert!(take(&world, "x") > old);
    assert_eq!(code(&world.call(["check", "x", &old.to_string()])), 77);
}
