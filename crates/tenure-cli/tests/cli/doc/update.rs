//! `doc update` on one document.

use std::process::Stdio;
use std::thread;

use super::commands::{Worker, doc, get, put};
use crate::world::{World, code, is_alive, json, signal, text, until, until_exists};

#[test]
fn no_update_of_many_processes_is_lost() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let arguments = ["update", "--wait", "60s", "a.json", "--", "jq", ".n += 1"];
                    let output = doc(&world, arguments);
                    assert_eq!(code(&output), 0, "{output:?}");
                }
            });
        }
    });
    assert_eq!(get(&world, "a.json"), "{\"n\":40}\n");
}

#[test]
fn the_version_of_what_was_written_is_printed() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let output = doc(&world, ["update", "a.json", "--", "jq", ".n += 1"]);
    let version = text(&output.stdout);
    assert_eq!(
        world.json(["doc", "read", "a.json"])["version"],
        version.trim()
    );
    let expect = [
        "doc",
        "update",
        "a.json",
        "--expect",
        version.trim(),
        "--json",
        "--",
        "cat",
    ];
    let output = world.call(expect);
    assert_eq!(
        json(&output.stdout)["version"],
        version.trim(),
        "nothing changed"
    );
    let other = "0".repeat(64);
    let output = doc(
        &world,
        ["update", "a.json", "--expect", &other, "--", "touch", "ran"],
    );
    assert_eq!(code(&output), 76, "{output:?}");
    assert!(
        !world.path("ran").exists(),
        "the command is not even started"
    );
}

#[test]
fn a_command_that_fails_leaves_the_document_and_passes_its_code_on() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    for (script, expected, said) in [
        (
            "echo '[2]'; exit 5",
            5,
            "sh exited with 5; a.json is untouched",
        ),
        (
            "echo '[2]'; kill -9 $$",
            137,
            "sh was ended by signal 9; a.json is untouched",
        ),
    ] {
        let output = doc(&world, ["update", "a.json", "--", "sh", "-c", script]);
        assert_eq!(code(&output), expected, "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
        let output = doc(
            &world,
            ["update", "a.json", "--json", "--", "sh", "-c", script],
        );
        assert_eq!(code(&output), expected, "{output:?}");
        let error = &json(&output.stdout)["error"];
        assert_eq!(
            (error["kind"].as_str(), error["message"].as_str()),
            (Some("command_failed"), Some(said))
        );
    }
    put(&world, "not-executable", "");
    for (program, expected) in [("no-such-program", 127), ("./not-executable", 126)] {
        let output = doc(&world, ["update", "a.json", "--", program]);
        assert_eq!(code(&output), expected, "{output:?}");
    }
    assert_eq!(get(&world, "a.json"), "[1]");
}

#[test]
fn output_that_is_not_json_is_65_with_the_byte_and_leaves_the_document() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    for (printed, said) in [
        ("[1, x]", "byte 4"),
        ("", "empty"),
        ("[1] [2]", "byte 4"),
        ("{\"a\":1,\"a\":2}", "twice"),
        (
            "[\"\\377\"]",
            "sh printed what is not UTF-8 at byte 2; a.json is untouched",
        ),
    ] {
        let script = format!("printf '{printed}'");
        let output = doc(&world, ["update", "a.json", "--", "sh", "-c", &script]);
        assert_eq!(code(&output), 65, "{output:?}");
        let error = text(&output.stderr);
        assert!(
            error.contains(said) && error.contains("untouched"),
            "{error}"
        );
        assert_eq!(get(&world, "a.json"), "[1]");
    }
}

#[test]
fn a_large_document_neither_blocks_nor_is_cut() {
    let world = World::new();
    let large = format!("[\"{}\"]", "x".repeat(5 << 20));
    put(&world, "a.json", &large);
    let output = doc(&world, ["update", "a.json", "--", "cat"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(get(&world, "a.json"), large);
    // The first command prints much before it reads anything, and the second never reads.
    let script = "head -c 1000000 /dev/zero | tr '\\0' ' '; cat";
    assert_eq!(
        code(&doc(&world, ["update", "a.json", "--", "sh", "-c", script])),
        0
    );
    assert_eq!(get(&world, "a.json"), large, "only blanks differ");
    assert_eq!(
        code(&doc(&world, ["update", "a.json", "--", "echo", "[1]"])),
        0
    );
    assert_eq!(get(&world, "a.json"), "[1]");
}

#[test]
fn more_than_a_document_may_have_ends_the_command_and_is_65() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let output = doc(&world, ["update", "a.json", "--", "cat", "/dev/zero"]);
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(
        text(&output.stderr).contains("cat printed more than 256 MiB"),
        "{output:?}"
    );
    assert_eq!(get(&world, "a.json"), "[1]");
}

#[test]
fn indentation_byte_order_mark_and_last_newline_stay() {
    let world = World::new();
    put(
        &world,
        "a.json",
        "\u{feff}{\n    \"b\": 1.50,\n    \"a\": [\n        1\n    ]\n}",
    );
    assert_eq!(
        code(&doc(
            &world,
            ["update", "a.json", "--", "sed", "s/\\[/[0,/"]
        )),
        0
    );
    let kept = "\u{feff}{\n    \"b\": 1.50,\n    \"a\": [\n        0,\n        1\n    ]\n}";
    assert_eq!(get(&world, "a.json"), kept);
    // jq prints two spaces and a newline; the document, one line without either, keeps its form.
    put(&world, "b.json", "{\"b\":1,\"a\":2}");
    assert_eq!(
        code(&doc(&world, ["update", "b.json", "--", "jq", ".a = 3"])),
        0
    );
    assert_eq!(get(&world, "b.json"), "{\"b\":1,\"a\":3}");
}

#[test]
fn a_missing_document_is_66_unless_it_is_said_what_it_begins_with() {
    let world = World::new();
    let output = doc(&world, ["update", "a.json", "--", "touch", "ran"]);
    assert_eq!(code(&output), 66, "{output:?}");
    assert!(text(&output.stderr).contains("--create JSON"), "{output:?}");
    assert!(!world.path("ran").exists() && !world.path("a.json").exists());
    let create = [
        "update",
        "--create",
        "{\"n\":41}",
        "a.json",
        "--",
        "jq",
        "-c",
        ".n += 1",
    ];
    assert_eq!(code(&doc(&world, create)), 0);
    assert_eq!(
        get(&world, "a.json"),
        "{\"n\":42}\n",
        "as the command printed it"
    );
    assert_eq!(code(&doc(&world, create)), 0);
    assert_eq!(get(&world, "a.json"), "{\"n\":43}\n");
}

#[test]
fn a_broken_document_is_65_and_the_command_does_not_run() {
    let world = World::new();
    put(&world, "a.json", "{\"a\":1,\"a\":2}");
    let output = doc(&world, ["update", "a.json", "--", "touch", "ran"]);
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(!world.path("ran").exists());
}

#[test]
fn the_command_knows_which_document_it_is_about() {
    let world = World::new();
    put(&world, "a.json", "{}");
    let output = doc(
        &world,
        [
            "update",
            "a.json",
            "--",
            "jq",
            ".path = env.TENURE_DOCUMENT",
        ],
    );
    assert_eq!(code(&output), 0, "{output:?}");
    let path = world.json(["doc", "read", "a.json"])["document"]["path"].clone();
    let path = std::path::Path::new(path.as_str().unwrap()).canonicalize();
    assert_eq!(path.unwrap(), world.path("a.json"));
}

#[test]
fn without_a_command_it_is_a_usage_error_with_an_example() {
    let world = World::new();
    for arguments in [&["update", "a.json"][..], &["update", "a.json", "jq", "."]] {
        let output = doc(&world, arguments.iter().copied());
        assert_eq!(code(&output), 2, "{output:?}");
        let example = "tenure doc update a.json -- jq '.n += 1'";
        assert!(text(&output.stderr).contains(example), "{output:?}");
        let output = doc(&world, arguments.iter().copied().chain(["--json"]));
        assert!(
            json(&output.stdout)["error"]["remedy"]
                .as_str()
                .unwrap()
                .contains(example)
        );
    }
}

#[test]
fn the_command_dies_with_the_update_and_nothing_is_written() {
    let world = World::new();
    put(&world, "a.json", "{}");
    let mut worker = Worker::on(&world, "a.json");
    let command = worker.command;
    worker.update.kill().unwrap();
    worker.update.wait().unwrap();
    until("the command is gone", || !is_alive(command));
    assert_eq!(get(&world, "a.json"), "{}");
    let output = doc(
        &world,
        ["update", "--no-wait", "a.json", "--", "echo", "[1]"],
    );
    assert_eq!(code(&output), 0, "the lock is free: {output:?}");
}

/// Returns the first child of a process, once there is one.
fn child_of(pid: u32) -> u32 {
    let mut child = None;
    until("it has a child", || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        child = children
            .unwrap()
            .split(' ')
            .next()
            .and_then(|child| child.parse().ok());
        child.is_some()
    });
    child.unwrap()
}

#[test]
fn a_program_that_knows_nothing_of_signals_is_ended_by_them() {
    let world = World::new();
    put(&world, "a.json", "{}");
    let mut command = world.tenure();
    let mut update = command
        .args(["doc", "update", "a.json", "--", "sleep", "1000"])
        .spawn()
        .unwrap();
    child_of(update.id());
    signal(update.id(), libc::SIGTERM);
    let mut status = None;
    until("update ends", || {
        status = update.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(143));
}

#[test]
fn a_signal_is_for_the_command_which_decides() {
    let world = World::new();
    put(&world, "a.json", "{}");
    let worker = Worker::on(&world, "a.json");
    signal(worker.update.id(), libc::SIGTERM);
    let command = worker.command;
    let (code, said) = worker.end();
    assert_eq!(code, Some(143), "{said}");
    assert!(
        said.contains("sh was ended by signal 15; a.json is untouched"),
        "{said}"
    );
    assert!(!is_alive(command));
    assert_eq!(get(&world, "a.json"), "{}");
}

#[test]
fn a_command_that_is_over_is_not_waited_for_after_a_signal() {
    let world = World::new();
    put(&world, "a.json", "{}");
    // The background process keeps the output open.
    let script = "sleep 1000 & echo $! > left.new; mv left.new left; echo '[]'";
    let mut command = world.tenure();
    command.args(["doc", "update", "a.json", "--", "sh", "-c", script]);
    let mut update = command.stdout(Stdio::null()).spawn().unwrap();
    until_exists(&world.path("left"));
    let left: u32 = get(&world, "left").trim().parse().unwrap();
    // A signal before the end of the command goes to the command.
    let mut status = None;
    until("the end of the update", || {
        signal(update.id(), libc::SIGTERM);
        status = update.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    signal(left, libc::SIGKILL);
    assert!(!status.success(), "{status}");
    assert_eq!(get(&world, "a.json"), "{}");
}

#[test]
fn what_was_written_is_told_where_the_version_cannot_be() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = world.tenure();
    command.args(["doc", "update", "a.json", "--", "echo", "[2]"]);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(
        text(&output.stderr).contains("a.json: written; do not repeat it"),
        "{output:?}"
    );
    assert_eq!(get(&world, "a.json"), "[2]");
}

#[test]
fn a_version_is_expected_of_one_document_only() {
    let world = World::new();
    let output = doc(
        &world,
        ["update", "--expect", "absent", "a", "b", "--", "cat"],
    );
    assert_eq!(code(&output), 2, "{output:?}");
}
