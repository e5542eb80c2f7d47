//! The output of each command.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use serde_json::json;

use crate::place::Place;
use crate::site::Process;
use crate::world::{World, code, json, text, until};

#[test]
fn an_issue_has_the_fields_of_the_contract() {
    let place = Place::new();
    place.done(&["gate", "define", "review"]);
    let added = place.json(&[
        "add",
        "Fix it",
        "--body",
        "all of it",
        "--label",
        "web",
        "--gate",
        "review",
        "--id",
        "a",
    ]);
    let issue = &added["issues"][0];
    assert_eq!(added["next"], json!(null));
    let names: Vec<&String> = issue.as_object().unwrap().keys().collect();
    let expected = [
        "id",
        "title",
        "body",
        "state",
        "priority",
        "labels",
        "depends_on",
        "gates",
        "claim",
        "created_at",
        "updated_at",
        "notes",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (&issue["priority"], &issue["gates"]),
        (&json!(2), &json!({"review": "pending"}))
    );
    place.done(&["gate", "pass", "a", "review"]);
    let claimed = place.json(&["claim", "a", "--owner", "bo"]);
    let claim = claimed["issues"][0]["claim"].as_object().unwrap();
    assert_eq!(
        claim.keys().collect::<Vec<_>>(),
        ["owner", "token", "acquired_at", "expires_at"]
    );
}

#[test]
fn the_next_issue_has_the_lowest_priority_number_and_is_the_oldest_of_those() {
    let place = Place::new();
    for (id, priority) in [
        ("late", "2"),
        ("first", "1"),
        ("second", "1"),
        ("never", "9"),
    ] {
        place.done(&["add", id, "--id", id, "--priority", priority]);
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(place.done(&["next", "--claim"]));
    }
    assert_eq!(order, ["first", "second", "late", "never"]);
}

#[test]
fn the_cache_of_what_is_ready_follows_every_change_and_may_be_removed_or_wrong() {
    let place = Place::new();
    place.add(&["a", "b"]);
    place.done(&["add", "c", "--id", "c", "--depends", "a", "--priority", "0"]);
    assert_eq!(place.done(&["next"]), "a");
    // The cache tells which issues to read again, from the log; not all of them are read.
    place.done(&["done", "a"]);
    assert_eq!(place.done(&["next"]), "c");
    place.done(&["set", "b", "priority=0"]);
    place.done(&["set", "c", "priority=5"]);
    assert_eq!(place.done(&["next"]), "b");
    let cache = fs::read(place.path(".ready")).unwrap();
    for wrong in [
        "",
        "{}\n",
        "{\"offset\":5,\"line\":\"x\"}\n[0,0,\"zzz\",[],[]]",
    ] {
        fs::write(place.path(".ready"), wrong).unwrap();
        assert_eq!(place.done(&["next"]), "b");
    }
    // This cache belongs to a longer log, as after a power loss.
    let mut log = fs::read(place.path("events.jsonl")).unwrap();
    fs::write(place.path(".ready"), cache).unwrap();
    let cut = log.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    log.truncate(cut);
    assert_eq!(place.done(&["next"]), "b");
    place.done(&["delete", "b"]);
    assert_eq!(place.done(&["next"]), "c");
}

#[test]
fn lists_are_filtered_and_tables_say_why() {
    let place = Place::new();
    place.done(&[
        "add", "one", "--id", "a", "--label", "web", "--label", "urgent",
    ]);
    place.done(&["add", "two", "--id", "b", "--depends", "a"]);
    place.done(&["add", "three", "--id", "c", "--label", "web"]);
    place.done(&["done", "c"]);
    place.done(&["claim", "a", "--owner", "agent:7"]);
    let ids = |arguments: &[&str]| {
        let listed = place.json(&[&["ls"], arguments].concat());
        let ids = listed["issues"].as_array().unwrap().iter();
        ids.map(|issue| issue["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["a", "b", "c"]);
    assert_eq!(ids(&["--state", "done"]), ["c"]);
    assert_eq!(ids(&["--state", "open", "--label", "web"]), ["a"]);
    assert_eq!(ids(&["--owner", "agent:7"]), ["a"]);
    assert_eq!(ids(&["--ready"]), [""; 0]);
    let table = place.done(&["ls"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("ID  STATE    PRIORITY  TITLE  LABELS"),
        "{table}"
    );
    assert!(
        lines[1].contains("claimed") && lines[1].contains("by agent:7, 14m"),
        "{table}"
    );
    assert!(
        lines[2].contains("blocked") && lines[2].ends_with("waits for a"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn what_others_depend_on_is_not_deleted_and_a_circle_is_named() {
    let place = Place::new();
    place.add(&["a", "b", "c"]);
    place.done(&["depend", "b", "--on", "a"]);
    place.done(&["depend", "c", "--on", "b"]);
    let said = place.refused(76, &["delete", "a"]);
    assert!(said.contains("b depends on it"), "{said}");
    let said = place.refused(76, &["depend", "a", "--on", "c"]);
    assert!(said.contains("a → c → b → a"), "{said}");
    place.refused(76, &["depend", "a", "--on", "a"]);
    place.refused(66, &["depend", "a", "--on", "nobody"]);
    place.done(&["depend", "b", "--on", "a", "--remove"]);
    place.done(&["delete", "a"]);
    place.refused(66, &["show", "a"]);
    let said = place.refused(76, &["add", "x", "--id", "a"]);
    assert!(said.contains("not used again"), "{said}");
    place.refused(76, &["add", "x", "--id", "b"]);
    place.refused(66, &["delete", "nobody"]);
    assert!(!place.path("issues/nobody.lock").exists());
}

#[test]
fn bad_input_is_refused_with_what_is_allowed() {
    let place = Place::new();
    place.add(&["a"]);
    for arguments in [
        &["add", " "][..],
        &["add", "a\nb"],
        &["add", "x", "--label", "a b"],
        &["set", "a", "colour=red"],
        &["set", "a", "priority=high"],
        &["set", "a", "state=done"],
        &["set", "a", "title="],
        &["note", "a", " "],
        &["add", "x", "--id=--"],
        &["add", "x", "--id=-x"],
    ] {
        place.refused(65, arguments);
    }
    for arguments in [
        &["add", "x", "--id", "a/b"][..],
        &["show", ".."],
        &["next", "--ttl", "5m"],
    ] {
        place.refused(2, arguments);
    }
    place.refused(66, &["add", "x", "--gate", "nobody"]);
    place.refused(66, &["add", "x", "--depends", "nobody"]);
    assert_eq!(place.json(&["ls"])["issues"].as_array().unwrap().len(), 1);
}

#[test]
fn control_characters_of_others_do_not_reach_the_terminal() {
    let place = Place::new();
    place.add(&["a"]);
    place.done(&["note", "a", "red \u{1b}[31m"]);
    place.done(&["set", "a", "body=\u{1b}]0;x\u{7}"]);
    for arguments in [&["show", "a"][..], &["ls"], &["events"]] {
        assert!(!place.done(arguments).contains('\u{1b}'));
    }
}

#[test]
fn a_follower_sees_every_event_in_order_as_it_comes() {
    let place = Place::new();
    place.add(&["a"]);
    let follower = Process::start(&mut place.command(&["events", "--follow", "--json"]));
    until("the first is there", || {
        follower.printed().lines().count() == 1
    });
    for number in 2..=5 {
        place.done(&["note", "a", "x"]);
        until("the next one is there", || {
            follower.printed().lines().count() == number
        });
    }
    for (line, number) in follower.printed().lines().zip(1..) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["line"], &line["event"]["issue_id"]),
            (&json!(number), &json!("a"))
        );
    }
    let after = place.json(&["events", "--after", "4"]);
    assert_eq!(after["events"].as_array().unwrap().len(), 1);
}

#[test]
fn all_worktrees_of_a_repository_share_the_board_and_it_is_private() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        world.prepare(&mut command);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "-q", "main"]);
    git(&[
        "-C",
        "main",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    git(&["-C", "main", "worktree", "add", "-q", "../other"]);
    let at = |directory: &str, arguments: &[&str]| {
        let mut command = world.tenure();
        command.current_dir(world.path(directory)).arg("board");
        command.args(arguments).output().unwrap()
    };
    let looked = at("main", &["ls"]);
    assert_eq!(code(&looked), 66);
    assert!(text(&looked.stderr).contains("tenure board init"));
    // The first issue makes the board.
    assert_eq!(code(&at("main", &["add", "x", "--id", "a"])), 0);
    let listed = json(&at("other", &["ls", "--json"]).stdout);
    assert_eq!(listed["issues"][0]["id"], "a");
    let root = world.path("main/.git/tenure/board");
    for (name, mode) in [
        ("", 0o700),
        ("index.json", 0o600),
        ("issues/a.json", 0o600),
        ("events.jsonl", 0o600),
        (".index.lock", 0o600),
    ] {
        assert_eq!(
            fs::metadata(root.join(name)).unwrap().mode() & 0o777,
            mode,
            "{name}"
        );
    }
    // A board at another path must be made explicitly, so that a mistyped path makes none.
    let missing = at("main", &["add", "x", "--dir", "elsewhere"]);
    assert_eq!(code(&missing), 66);
    assert!(text(&missing.stderr).contains("tenure board init --dir elsewhere"));
    assert_eq!(code(&at("main", &["init", "--dir", "elsewhere"])), 0);
    let ignored = fs::read_to_string(world.path("main/elsewhere/.gitignore")).unwrap();
    for line in ["*.lock", ".pending/", ".ready"] {
        assert!(ignored.lines().any(|ignored| ignored == line), "{ignored}");
    }
}

#[test]
fn fields_and_the_state_are_set_in_one_change_or_not_at_all() {
    let place = Place::new();
    place.add(&["a"]);
    place.done(&["done", "a"]);
    place.refused(65, &["set", "a", "state=open", "title="]);
    assert_eq!(place.issue("a")["state"], "done");
    place.done(&["set", "a", "state=open", "title=again"]);
    let issue = place.issue("a");
    assert_eq!(
        (&issue["state"], &issue["title"]),
        (&json!("open"), &json!("again"))
    );
    assert_eq!(
        place.json(&["events"])["events"].as_array().unwrap().len(),
        3
    );
}

#[test]
fn states_are_coloured_on_a_terminal_unless_people_mind() {
    let place = Place::new();
    place.add(&["a"]);
    let mut terminal = crate::terminal::Terminal::open(&place.world);
    let ls = format!("\"$TENURE\" board ls --dir {}", place.root().display());
    terminal.press(&format!("{ls}; echo one-$((1+1))\n"));
    terminal.expect("\u{1b}[32mready");
    terminal.expect("one-2");
    terminal.press(&format!("NO_COLOR=1 {ls}; echo two-$((1+1))\n"));
    terminal.expect("two-2");
    let screen = terminal.screen();
    let plain = screen.split("one-2").last().unwrap();
    assert!(
        plain.contains("ready") && !plain.contains("\u{1b}[32m"),
        "{plain:?}"
    );
}
