//! The first commands of a board, which make it: several at once, and one that is killed.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::place::{judge, open};
use crate::site::Process;
use crate::strace::{kill_at, points, strace};
use crate::world::{DEADLINE, World, code, text, until};

fn in_git() -> World {
    let world = World::new();
    let mut git = Command::new("git");
    world.prepare(&mut git);
    assert!(git.args(["init", "-q"]).status().unwrap().success());
    world
}

#[test]
fn of_first_commands_that_make_the_board_at_once_none_loses_its_issue() {
    for _ in 0..5 {
        let world = in_git();
        let start = |number: usize| {
            let mut command = world.tenure();
            command.args(["board", "add", &format!("issue {number}")]);
            Process::start(command.env("TENURE_LOCK_TIMEOUT", "120"))
        };
        let processes: Vec<Process> = (0..12).map(start).collect();
        let mut ids = BTreeSet::new();
        for process in processes {
            let output = process.end_within(DEADLINE * 4);
            assert_eq!(code(&output), 0, "{output:?}");
            ids.insert(text(&output.stdout).trim().to_owned());
        }
        let root = world.path(".git/tenure/board");
        let listed = open(&root).list().unwrap().issues.into_iter();
        let listed: BTreeSet<String> = listed.map(|issue| issue.id.to_string()).collect();
        assert_eq!((ids.len(), &listed), (12, &ids));
        judge(&root);
    }
}

/// One command is held up before its index gets its name, and another adds an issue meanwhile.
#[test]
fn one_who_makes_the_board_slowly_does_not_take_away_what_another_added_meanwhile() {
    let world = in_git();
    // The fourth rename is that of the index.
    let renames = "inject=rename,renameat2:delay_enter=3000000:when=4";
    let options = ["-f", "-e", "trace=rename,renameat2", "-e", renames];
    let slow = ["board", "add", "slow", "--id", "slow"];
    let slow = Process::start(&mut strace(&world, &options, &slow));
    let root = world.path(".git/tenure/board");
    until("its index is ready to be put in place", || {
        let is_index = |name: &String| name.starts_with(".index.json.");
        root.exists() && crate::site::names(&root).iter().any(is_index)
    });
    assert_eq!(
        code(&world.call(["board", "add", "quick", "--id", "quick"])),
        0
    );
    let output = slow.end_within(DEADLINE * 2);
    assert_eq!(code(&output), 0, "{output:?}");
    let listed = open(&root).list().unwrap().issues.len();
    assert_eq!(listed, 2);
    judge(&root);
}

#[test]
fn a_board_whose_maker_was_killed_at_any_system_call_is_made_by_the_next() {
    let world = in_git();
    let root = world.path("board");
    let arguments = ["board", "init", "--dir", root.to_str().unwrap()];
    let points = points(&world, &arguments, root.to_str().unwrap());
    for point in points {
        fs::remove_dir_all(&root).unwrap();
        kill_at(&world, &point, &arguments);
        assert_eq!(code(&world.call(arguments)), 0, "{point:?}");
        let add = ["board", "add", "x", "--dir", root.to_str().unwrap()];
        assert_eq!(code(&world.call(add)), 0, "{point:?}");
        judge(&root);
    }
}

#[test]
fn outside_of_a_repository_the_board_is_the_users_and_so_where_the_settings_say_user() {
    let world = World::new();
    fs::create_dir(world.path("home")).unwrap();
    let mut add = world.tenure();
    add.args(["board", "add", "x", "--id", "a"])
        .env_remove("TENURE_STORE");
    assert_eq!(code(&add.output().unwrap()), 0);
    let board = |world: &World| {
        let mut found = Command::new("find");
        let found = found.arg(world.path("home")).args(["-name", "index.json"]);
        let found = text(&found.output().unwrap().stdout).trim().to_owned();
        assert!(found.ends_with("board/index.json"), "{found:?}");
        assert!(fs::read_to_string(found).unwrap().contains("\"a\""));
    };
    board(&world);
    let world = in_git();
    fs::create_dir(world.path("home")).unwrap();
    fs::write(world.path("tenure.toml"), "store = \"user:\"\n").unwrap();
    let mut add = world.tenure();
    add.args(["board", "add", "x", "--id", "a"])
        .env_remove("TENURE_STORE");
    let output = add.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!world.path(".git/tenure/board").exists());
    board(&world);
}
