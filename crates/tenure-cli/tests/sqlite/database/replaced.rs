//! Databases that are deleted, or replaced by another file.

use std::fs;
use std::process::Command;

use crate::database::{fold_the_log, until_let_in};
use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::{Process, TELL, assert_nothing_is_left, take, the_lease, token};
use crate::world::{World, code, is_alive, text};

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

/// Puts back the copies that `save` made.
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

/// Renames one file over the other: there is no moment without a database.
fn renamed_over(world: &World) {
    let (saved, path) = (world.path("saved/tenure.db"), world.path("store/tenure.db"));
    fs::rename(saved, path).unwrap();
}

/// Keeps the database, and drops everything that is only in the log.
fn left_without_its_log(world: &World) {
    for name in &FILES[1..] {
        fs::remove_file(world.path("store").join(name)).unwrap();
    }
}

/// Makes a store that is only in the log: nothing of it has been folded into the database.
fn young(world: &World) {
    take(world, "x");
    take(world, "x");
}

/// Makes a store and copies it: some of it is in the database, some in the log.
fn save(world: &World) {
    take(world, "x");
    fold_the_log(world);
    take(world, "x");
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

/// Asserts that the holder stops, and that no other process has the lock before that.
fn assert_the_holder_stops_first(make: fn(&World), lose: Lose) {
    let world = World::new();
    make(&world);
    let mut holder = Holder::start(&world, ["x"]);
    let old = the_lease(&world)["token"].as_u64().unwrap();
    lose(&world);
    let new = until_let_in(&world, holder.command, "replaced");
    assert!(new > old, "{new} after {old}");
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
    Database::of(&world).assert_whole();
    assert_nothing_is_left(&world);
}

/// Asserts that a process which waits when it happens goes on waiting, and has the lock in the end.
/// A newcomer may be refused, and is told why.
fn assert_waiters_go_on(make: fn(&World), lose: Lose) {
    let world = World::new();
    make(&world);
    let mut holder = Holder::start(&world, ["x"]);
    let old = the_lease(&world)["token"].as_u64().unwrap();
    let waiter = Process::in_line(&world, "x", "waiter");
    lose(&world);
    let newcomer = ["run", "--wait", "60s", "--owner", "newcomer", "x"];
    let newcomer = Process::tenure(&world, newcomer.into_iter().chain(TELL));
    assert_eq!(holder.code(), 79);
    let (waiter, newcomer) = (waiter.token(), newcomer.end());
    assert!(waiter > old, "{waiter} after {old}");
    match code(&newcomer) {
        69 => assert!(text(&newcomer.stderr).contains("replaced"), "{newcomer:?}"),
        _ => assert!(token(&newcomer) > old),
    }
    Database::of(&world).assert_whole();
    assert_nothing_is_left(&world);
}

#[test]
fn the_holder_of_a_deleted_database_stops_before_anyone_is_let_in() {
    assert_the_holder_stops_first(save, deleted);
}

#[test]
fn the_holder_of_a_young_database_that_is_deleted_stops_before_anyone_is_let_in() {
    assert_the_holder_stops_first(young, deleted);
}

#[test]
fn those_who_wait_in_a_young_database_that_is_deleted_have_the_lock_of_the_new_one() {
    assert_waiters_go_on(young, deleted);
}

#[test]
fn the_holder_of_a_database_deleted_with_its_log_stops_before_anyone_is_let_in() {
    assert_the_holder_stops_first(save, deleted_with_its_log);
}

#[test]
fn the_holder_of_a_database_replaced_by_an_older_copy_stops_before_anyone_is_let_in() {
    assert_the_holder_stops_first(save, replaced_by_an_older_copy);
}

#[test]
fn the_holder_of_a_database_renamed_over_stops_before_anyone_is_let_in() {
    assert_the_holder_stops_first(save, renamed_over);
}

/// A newcomer may be let in before the holder has noticed: only the tokens keep them apart.
#[test]
fn the_holder_of_a_database_left_without_its_log_stops_and_tokens_do_not_go_back() {
    let world = World::new();
    save(&world);
    let mut holder = Holder::start(&world, ["x"]);
    let old = the_lease(&world)["token"].as_u64().unwrap();
    left_without_its_log(&world);
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
    assert!(take(&world, "x") > old);
    Database::of(&world).assert_whole();
    assert_nothing_is_left(&world);
}

#[test]
fn those_who_wait_in_a_deleted_database_have_the_lock_of_the_new_one() {
    assert_waiters_go_on(save, deleted);
}

#[test]
fn those_who_wait_in_a_database_deleted_with_its_log_have_the_lock_of_the_new_one() {
    assert_waiters_go_on(save, deleted_with_its_log);
}

#[test]
fn those_who_wait_in_a_database_replaced_by_an_older_copy_have_the_lock_of_that_one() {
    assert_waiters_go_on(save, replaced_by_an_older_copy);
}

#[test]
fn those_who_wait_in_a_database_renamed_over_have_the_lock_of_the_new_one() {
    assert_waiters_go_on(save, renamed_over);
}

/// Nothing is left that could tell a newcomer of the holder: only the tokens keep them apart.
#[test]
fn the_holder_of_a_store_removed_whole_stops_and_tokens_do_not_go_back() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    let old = the_lease(&world)["token"].as_u64().unwrap();
    fs::remove_dir_all(world.path("store")).unwrap();
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
    assert!(take(&world, "x") > old);
    assert_eq!(code(&world.call(["check", "x", &old.to_string()])), 77);
    assert_nothing_is_left(&world);
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
