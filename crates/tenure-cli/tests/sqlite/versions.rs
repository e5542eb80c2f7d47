//! Two versions of Tenure on one database.

use std::fs;

use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::{Process, held, take, the_lease, until_in_line};
use crate::world::{World, code, is_alive, text, until};

const NEWER: &str = "PRAGMA user_version = 99";

/// Returns the content of the database, without its version.
fn contents(database: &mut Database) -> Vec<serde_json::Value> {
    let mut contents = Vec::new();
    for table in [
        "dal_locks",
        "waiters",
        "sessions",
        "resources",
        "audit",
        "keys",
    ] {
        contents.extend(database.rows(&format!("SELECT * FROM {table}")));
    }
    contents
}

#[test]
fn a_database_of_a_newer_tenure_is_refused_and_nothing_is_written() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h"]);
    let mut database = Database::of(&world);
    database.change(NEWER);
    let before = contents(&mut database);
    for arguments in [
        &["lock", "y", "--no-wait"][..],
        &["run", "x", "--", "true"],
        &["release", &lease],
        &["renew", &lease],
        &["recover"],
        &["ls"],
        &["break", &lease, "--reason", "why", "--yes"],
    ] {
        let output = world.call(arguments.iter().copied());
        assert_eq!(code(&output), 78, "{arguments:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("newer tenure"), "{said}");
        assert!(
            said.contains("99") && said.contains("upgrade tenure"),
            "{said}"
        );
    }
    assert_eq!(contents(&mut database), before);
    assert_eq!(database.one("PRAGMA user_version"), 99);
    let sessions = fs::read_dir(world.path("store/sessions")).unwrap();
    assert_eq!(sessions.count(), 0, "no session was begun");
}

#[test]
fn a_newer_tenure_that_comes_while_others_wait_and_hold_is_told_to_them() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    let waiter = ["lock", "x", "--wait", "60s", "--owner", "waiter"];
    let waiter = Process::tenure(&world, waiter);
    until_in_line(&world, "waiter");
    let mut database = Database::of(&world);
    let ours = database.one("PRAGMA user_version");
    database.change(NEWER);
    let entries = database.one("SELECT count(*) FROM audit");
    // The session's lock protects the command until it ends, whatever happens to the rows.
    assert!(is_alive(holder.command));
    holder.let_go();
    assert_eq!(holder.code(), 0, "as its command ended");
    let output = waiter.end();
    assert_eq!(code(&output), 78, "{output:?}");
    assert!(text(&output.stderr).contains("newer tenure"), "{output:?}");
    assert_eq!(database.one("SELECT count(*) FROM audit"), entries);
    // The version is ours again: the leftovers of the dead do not stand in the way.
    database.change(&format!("PRAGMA user_version = {ours}"));
    until("it is free", || world.is_free("x"));
    database.assert_whole();
}

#[test]
fn an_older_database_is_migrated_with_its_leases() {
    let world = World::new();
    // The database looks as an older Tenure left it: its schema, with one lease of its own time.
    let mut database = Database::of(&world);
    let newer = World::new();
    let lease = newer.lock(["x", "--ttl", "1h"]);
    let token = the_lease(&newer)["token"].clone();
    // Later steps added these columns to the table of leases.
    let back =
        "ALTER TABLE dal_locks DROP COLUMN grace_ms; ALTER TABLE dal_locks DROP COLUMN agent";
    Database::of(&newer).change(back);
    fs::create_dir_all(world.path("store")).unwrap();
    let schema = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tenure-sqlite/src/schema/0001.sql"
    );
    database.change(&fs::read_to_string(schema).unwrap());
    let from = newer.path("store/tenure.db").display().to_string();
    database.change(&format!(
        "PRAGMA application_id = {}; PRAGMA user_version = 1; ATTACH '{from}' AS newer; \
         INSERT INTO store SELECT * FROM newer.store; \
         INSERT INTO dal_locks SELECT * FROM newer.dal_locks; \
         INSERT INTO resources SELECT * FROM newer.resources; \
         INSERT INTO audit (at, action, resource, lock_id, token, owner, actor) \
         SELECT at, action, resource, lock_id, token, owner, actor FROM newer.audit;",
        0x5465_6e75
    ));
    assert_eq!(database.one("PRAGMA user_version"), 1);
    let kept = the_lease(&world);
    assert_eq!(
        (&kept["lease"], &kept["token"]),
        (&lease.as_str().into(), &token)
    );
    assert!(database.one("PRAGMA user_version").as_u64().unwrap() > 1);
    assert!(!world.is_free("x"));
    assert_eq!(code(&world.call(["renew", &lease])), 0);
    let keyed = world.lock(["y", "--key", "k"]);
    assert_eq!(world.lock(["y", "--key", "k"]), keyed, "what is new works");
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert!(take(&world, "x") > token.as_u64().unwrap());
    assert_eq!(held(&world).len(), 1);
    database.assert_whole();
}
