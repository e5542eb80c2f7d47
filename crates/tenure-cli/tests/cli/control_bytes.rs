//! Control bytes in names, purposes and commands of others, which a terminal must not obey.

use std::fs;
use std::process::Output;

use crate::holder::{HOLD, Holder};
use crate::terminal::Terminal;
use crate::world::{World, code, text};

/// Clears the screen, also by an 8-bit control, and turns the direction of writing.
const HOSTILE: &str = "a\u{1b}[2Jb\u{9b}2Jc\u{202e}d\u{7}";

/// Asserts that nothing in the output steers a terminal, and that the name is shown escaped. The
/// newlines are our own layout.
#[track_caller]
fn assert_escaped(output: &Output) {
    let said = text(&output.stdout) + &text(&output.stderr);
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!said.contains(steers), "{said:?}");
    for part in ["\\u{1b}[2J", "\\u{9b}2J", "\\u{202e}d", "\\u{7}"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn control_bytes_in_paths_are_shown_escaped() {
    let world = World::new();
    let directory = world.path(HOSTILE);
    let hostile = directory.to_str().unwrap();
    let absent = format!("sqlite:{hostile}/t.db");
    assert_escaped(&world.call(["--store", &absent, "ls"]));
    let far = format!("sqlite:{hostile}/far/t.db");
    assert_escaped(&world.call(["--store", &far, "run", "x", "--", "true"]));
    fs::create_dir(&directory).unwrap();
    assert_escaped(&world.call(["doc", "clean", hostile]));
    let document = format!("{hostile}/x.json");
    assert_escaped(&world.call(["doc", "read", &document]));
    assert_escaped(&world.call(["--store", &absent, "doctor"]));
    fs::write(directory.join("tenure.toml"), "nonsense").unwrap();
    let mut here = world.tenure();
    assert_escaped(&here.current_dir(&directory).arg("ls").output().unwrap());
    // A newline in a name does not begin a line that looks like one of ours.
    let two = format!("{}/one\ntenure: two", world.path("").display());
    let output = world.call(["--store", &format!("sqlite:{two}"), "ls"]);
    assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
}

#[test]
fn control_bytes_in_words_typed_wrongly_are_shown_escaped() {
    let world = World::new();
    let hostile = format!("{}\u{9b}2J\u{202e}d", "x".repeat(3));
    for arguments in [
        &["run", &hostile, "--", "true"][..],
        &["run", "x", "--wait", &hostile, "--", "true"],
        &["ls", "--nonsense", &hostile],
    ] {
        let output = world.call(arguments.iter().copied());
        assert_eq!(code(&output), 2, "{output:?}");
        let said = text(&output.stderr);
        assert!(!said.contains(['\u{9b}', '\u{202e}']), "{said:?}");
    }
}

#[test]
fn control_bytes_in_commands_owners_and_purposes_are_shown_escaped() {
    let turned = "ana\u{202e}d";
    for world in World::each() {
        let mut command = world.tenure();
        command.args(["run", "x", "--owner", turned, "--purpose", turned, "--"]);
        command.args(["sh", "-c", HOLD, turned]);
        let _holder = Holder::from_command(command);
        for arguments in [
            &["ls"][..],
            &["run", "--no-wait", "x", "--", "true"],
            &["run", "--wait", "1200ms", "x", "--", "true"],
        ] {
            let output = world.call(arguments.iter().copied());
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(!said.contains('\u{202e}'), "{said:?}");
            assert!(said.contains("ana\\u{202e}d"), "{said}");
        }
        let listed = world.json(["ls"]);
        assert_eq!(listed["held"][0]["owner"], turned, "JSON is exact");
        let mut terminal = Terminal::open(&world);
        terminal.press("\"$TENURE\" run --wait 2s x -- true; echo end''ed\n");
        terminal.expect("ended");
        let screen = terminal.screen();
        assert!(!screen.contains('\u{202e}'), "{screen:?}");
        assert!(screen.contains("ana\\u{202e}d"), "{screen}");
    }
}
