//! A store that can be read and not written, as in a sandbox that makes `.git` read-only: commands
//! that look are answered, and commands that take a lock are told what to do.

use std::fs;
use std::process::{Command, Output};

use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::Process;
use crate::world::{World, code, json, text};

/// Makes a git repository whose store is used.
fn repository() -> World {
    let world = World::new();
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .arg(world.path("repository"))
        .status();
    assert!(made.unwrap().success());
    world
}

fn tenure(world: &World) -> Command {
    let mut command = world.tenure();
    command.current_dir(world.path("repository"));
    command.env_remove("TENURE_STORE");
    command
}

/// Returns `tenure ARGUMENTS` where `.git` is read-only.
fn inside(world: &World, arguments: &[&str]) -> Command {
    let script = "mount --bind .git .git && mount -o remount,bind,ro .git && exec \"$@\"";
    let mut command = Command::new("unshare");
    world.prepare(&mut command);
    command.current_dir(world.path("repository"));
    command.env_remove("TENURE_STORE");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_tenure")).args(arguments);
    command
}

fn call(world: &World, arguments: &[&str]) -> Output {
    inside(world, arguments).output().unwrap()
}

/// Returns all files of the store but the index of the log.
fn files(world: &World) -> Vec<(String, Vec<u8>)> {
    let store = world.path("repository/.git/tenure");
    let files = fs::read_dir(store).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.path().is_file());
    let named = files.map(|file| file.file_name().into_string().unwrap());
    let named = named.filter(|name| !name.ends_with("-shm"));
    let read = |name: String| {
        let bytes = fs::read(world.path("repository/.git/tenure").join(&name)).unwrap();
        (name, bytes)
    };
    let mut files: Vec<_> = named.map(read).collect();
    files.sort();
    files
}

#[track_caller]
fn assert_shown(world: &World, names: &[&str]) {
    let before = files(world);
    let output = call(world, &["ls", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let listing = json(&output.stdout);
    let held = listing["held"].as_array().unwrap().iter();
    let held: Vec<_> = held
        .map(|lease| lease["resource"].as_str().unwrap())
        .collect();
    assert_eq!(held, names);
    assert_eq!(files(world), before, "looking changes nothing");
}

#[test]
fn a_store_on_a_read_only_disk_is_shown_while_it_is_in_use() {
    let world = repository();
    let mut command = tenure(&world);
    command.args(["run", "x", "--", "sh", "-c", crate::holder::HOLD]);
    let mut holder = Holder::from_command(command);
    let mut waiter = tenure(&world);
    let waiter = Process::start(waiter.args(["run", "x", "--", "true"]));
    crate::world::until("it waits", || {
        let output = call(&world, &["ls", "--json"]);
        json(&output.stdout)["waiting"].as_array().unwrap().len() == 1
    });
    assert_shown(&world, &["name:x"]);
    let locked = tenure(&world).args(["lock", "y", "--ttl", "1h"]).output();
    assert_eq!(code(&locked.unwrap()), 0);
    assert_shown(&world, &["name:x", "name:y"]);
    holder.let_go();
    assert_eq!(holder.code(), 0);
    assert_eq!(code(&waiter.end()), 0);
    assert_shown(&world, &["name:y"]);
}

#[test]
fn a_store_on_a_read_only_disk_is_shown_at_rest_with_its_log_or_without() {
    let world = repository();
    let locked = tenure(&world).args(["lock", "y", "--ttl", "1h"]).output();
    assert_eq!(code(&locked.unwrap()), 0);
    assert_shown(&world, &["name:y"]);
    let store = world.path("repository/.git/tenure");
    // Another program folds the log, and removes it when it is done.
    Database::at(&store.join("tenure.db")).change("PRAGMA wal_checkpoint(TRUNCATE)");
    assert!(!store.join("tenure.db-wal").exists());
    assert_shown(&world, &["name:y"]);
    let output = call(&world, &["audit", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(json(&output.stdout)["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn who_takes_a_lock_in_a_read_only_store_is_told_what_to_do() {
    let world = repository();
    let none = call(&world, &["run", "x", "--", "echo", "ran"]);
    let locked = tenure(&world).args(["lock", "y", "--ttl", "1h"]).output();
    assert_eq!(code(&locked.unwrap()), 0);
    let before = files(&world);
    let some = call(&world, &["run", "x", "--", "echo", "ran"]);
    for output in [none, some] {
        assert_eq!(code(&output), 69, "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("Read-only file system"), "{said}");
        assert!(said.contains("TENURE_STORE=sqlite:"), "{said}");
        assert!(said.contains("store = \"user:\""), "{said}");
        assert!(said.contains("tenure agent install --write"), "{said}");
        assert!(said.contains(".git/tenure"), "{said}");
    }
    assert_eq!(files(&world), before, "nothing is half done");
}

#[test]
fn the_store_of_the_user_is_one_inside_and_outside_of_a_sandbox() {
    let world = repository();
    let toml = world.path("repository/tenure.toml");
    fs::write(toml, "store = \"user:\"\n").unwrap();
    let locked = tenure(&world).args(["lock", "y", "--ttl", "1h"]).output();
    assert_eq!(code(&locked.unwrap()), 0);
    let busy = call(&world, &["run", "--no-wait", "y", "--", "true"]);
    assert_eq!(code(&busy), 75, "{busy:?}");
    let lease = call(&world, &["lock", "z", "--ttl", "1h"]);
    assert_eq!(code(&lease), 0, "{lease:?}");
    let busy = tenure(&world)
        .args(["run", "--no-wait", "z", "--", "true"])
        .output();
    assert_eq!(code(&busy.unwrap()), 75);
    let added = call(&world, &["board", "add", "title", "--id", "one"]);
    assert_eq!(code(&added), 0, "{added:?}");
    let shown = tenure(&world).args(["board", "show", "one"]).output();
    assert_eq!(code(&shown.unwrap()), 0);
    assert!(!world.path("repository/.git/tenure").exists());
}

#[test]
fn doctor_tries_the_store_where_git_is_read_only() {
    let world = repository();
    let said = |world: &World| {
        let output = tenure(world).arg("doctor").output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        text(&output.stdout)
    };
    let git = said(&world);
    assert!(git.contains("sandbox: out of reach for agents"), "{git}");
    assert!(git.contains("tenure agent install --write"), "{git}");
    let toml = world.path("repository/tenure.toml");
    fs::write(toml, "store = \"user:\"\n").unwrap();
    let user = said(&world);
    assert!(user.contains("names it, as user:"), "{user}");
    assert!(user.contains("sandbox: usable where"), "{user}");
    let state = world.path("home/.local/state/tenure");
    let allow = format!("allow agents to write {}", state.display());
    assert!(user.contains(&allow), "{user}");
}
