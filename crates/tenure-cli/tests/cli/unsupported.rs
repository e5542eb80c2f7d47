//! File systems where locks are not known to hold: every command that would lock there is refused,
//! and nothing is written.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::world::{World, code, text};

/// The magic numbers from `statfs`, as 64 bits in the byte order that strace writes.
const NETWORK: [(&str, &str); 3] = [
    ("nfs", "6969000000000000"),
    ("9p", "9719020100000000"),
    ("fuse", "4655736500000000"),
];

/// Commands that lock below `@`: a store of each kind, a document, a board, a ledger, a target.
const COMMANDS: [&[&str]; 8] = [
    &["run", "--store", "file:@/store", "x", "--", "touch", "ran"],
    &["run", "--store", "sqlite:@/t.db", "x", "--", "touch", "ran"],
    &["lock", "--store", "sqlite:@/t.db", "x"],
    &["doc", "read", "@/a.json"],
    &["doc", "update", "@/a.json", "--", "touch", "ran"],
    &["board", "add", "--dir", "@/board", "a title"],
    &["ledger", "append", "@/ledger", r#"{"type":"x"}"#],
    &[
        "publish",
        "source",
        "@/target",
        "--store",
        "sqlite:here/t.db",
    ],
];

/// Returns the commands with this directory.
fn commands(directory: &str) -> impl Iterator<Item = Vec<String>> {
    let below = move |argument: &&str| argument.replace('@', directory);
    COMMANDS
        .iter()
        .map(move |command| command.iter().map(below).collect())
}

/// Makes a world with a board, a ledger and a document in `there`.
fn world() -> World {
    let world = World::new();
    for directory in ["there", "here", "source"] {
        fs::create_dir(world.path(directory)).unwrap();
    }
    fs::write(world.path("there/a.json"), "{}").unwrap();
    for arguments in [
        ["board", "init", "--dir", "there/board"].as_slice(),
        &["ledger", "init", "there/ledger"],
    ] {
        assert_eq!(code(&world.call(arguments.iter().copied())), 0);
    }
    world
}

#[track_caller]
fn assert_refused(output: &Output, name: &str, arguments: &[String]) {
    let said = text(&output.stderr);
    assert_eq!(code(output), 78, "{arguments:?}: {said}");
    let problem = format!("on a file system where locks are not known to hold: {name}");
    assert!(said.contains(&problem), "{arguments:?}: {said}");
}

#[test]
fn stores_documents_boards_ledgers_and_targets_on_network_file_systems_are_refused() {
    let world = world();
    let there = world.path("there").display().to_string();
    for (name, magic) in NETWORK {
        for arguments in commands(&there) {
            // Only calls about that place get this answer, as the store of a publish is elsewhere.
            let mut command = Command::new("strace");
            world.prepare(&mut command);
            let inject = format!("inject=statfs:poke_exit=@arg2={magic}");
            command.args([
                "-f",
                "-qq",
                "-o",
                "trace",
                "-e",
                "trace=statfs",
                "-e",
                &inject,
            ]);
            let below = [
                "",
                "/store",
                "/store/locks",
                "/board",
                "/ledger",
                "/ledger/ledger",
            ];
            for below in below {
                command.arg("-P").arg(format!("{there}{below}"));
            }
            command.arg(env!("CARGO_BIN_EXE_tenure")).args(&arguments);
            let output = command.stdin(Stdio::null()).output().unwrap();
            assert_refused(&output, name, &arguments);
        }
    }
    assert!(!world.path("ran").exists());
    assert_eq!(fs::read(world.path("there/a.json")).unwrap(), b"{}");
    for name in ["t.db", "tmp", "target"] {
        assert!(!world.path("there").join(name).exists(), "{name}");
    }
}

#[test]
fn a_mounted_file_system_that_is_not_known_is_refused() {
    let world = world();
    let mounted = world.path("mounted").display().to_string();
    fs::create_dir(&mounted).unwrap();
    // Such a file system holds names but no content, so it has neither board nor ledger.
    let script = r#"mount -t hugetlbfs none "$0" && touch "$0/a.json" && exec "$@""#;
    for arguments in commands(&mounted) {
        if ["board", "ledger"].contains(&arguments[0].as_str()) {
            continue;
        }
        let mut command = Command::new("unshare");
        world.prepare(&mut command);
        command.args(["--mount", "sh", "-c", script, &mounted]);
        command.arg(env!("CARGO_BIN_EXE_tenure")).args(&arguments);
        let output = command.output().unwrap();
        assert_refused(&output, "unknown (0x958458f6)", &arguments);
    }
    assert!(!world.path("ran").exists());
}
