//! Documents that are large, empty, broken or deep, and files that are no documents.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::site::{Process, assert_tidy, bytes, doc, done, put, refused, version, write};
use crate::world::{World, code, text};

#[test]
fn a_document_of_50_mb_is_read_and_updated_like_any_other() {
    let world = World::new();
    let mut large = String::from("{\n\"n\": 1,\n\"text\": [\n");
    let line = format!("\"{}\",\n", "x".repeat(996));
    for _ in 0..50_000 {
        large.push_str(&line);
    }
    large.push_str("\"\"\n]\n}\n");
    assert!(large.len() > 50_000_000);
    put(&world, "a.json", &large);
    // An unoptimised check of so much text takes its time on a busy machine.
    let limit = Duration::from_secs(120);
    let long = |arguments: &[&str]| {
        let output = Process::doc(&world, arguments.iter().copied()).end_within(limit);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(long(&["read", "a.json"]) == large, "read as it is");
    long(&["update", "a.json", "--", "sed", "2s/1/2/"]);
    let updated = bytes(&world, "a.json");
    assert!(updated == large.replacen("\"n\": 1", "\"n\": 2", 1));
    // A command that reads nothing does not make the update wait for ever.
    long(&["update", "a.json", "--", "echo", "{\"n\":3}"]);
    assert!(bytes(&world, "a.json").len() < 100);
    assert_tidy(&world.path(""), &["a.json"]);
}

#[test]
fn a_document_beyond_the_limit_is_refused_by_its_size_without_being_read() {
    let world = World::new();
    let large = fs::File::create(world.path("a.json")).unwrap();
    large.set_len(3 << 30).unwrap();
    let path = world.path("a.json").display().to_string();
    for arguments in [
        &["read", &path][..],
        &["update", &path, "--", "touch", "ran"],
    ] {
        let mut command = Command::new("strace");
        world.prepare(&mut command);
        command.args(["-qq", "-o", "trace", "-e", "trace=read", "-P", &path]);
        command.args([env!("CARGO_BIN_EXE_tenure"), "doc"]);
        let said = refused(&Process::start(command.args(arguments)).end(), 65);
        assert_eq!(bytes(&world, "trace"), "", "not a byte is read");
        assert!(
            said.contains("it has 3072 MiB, and a document at most 256 MiB"),
            "{said}"
        );
        assert!(said.contains("split it"), "{said}");
    }
    assert!(!world.path("ran").exists());
}

#[test]
fn nobody_is_said_to_hold_a_document_that_takes_long_to_read() {
    let world = World::new();
    put(&world, "a.json", "{}");
    let mut command = Command::new("strace");
    world.prepare(&mut command);
    let slow = "inject=read:delay_enter=2500000:when=1";
    command.args(["-qq", "-o", "trace", "-e", "trace=read", "-e", slow, "-P"]);
    command
        .arg(world.path("a.json"))
        .arg(env!("CARGO_BIN_EXE_tenure"));
    let path = world.path("a.json").display().to_string();
    let output = Process::start(command.args(["doc", "read", &path])).end();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(text(&output.stderr), "");
    assert!(bytes(&world, "trace").contains("DELAYED"), "it was slow");
}

/// Asserts that reading and updating a file that is no JSON tell the place and touch nothing, and
/// that writing repairs it.
#[track_caller]
fn assert_broken(content: &[u8], at: Option<usize>) {
    let world = World::new();
    fs::write(world.path("a.json"), content).unwrap();
    let tell = |said: &str| match at {
        Some(at) => assert!(said.contains(&format!("byte {at}")), "byte {at}: {said}"),
        None => assert!(said.contains("byte "), "{said}"),
    };
    for arguments in [
        &["read", "a.json"][..],
        &["update", "a.json", "--", "touch", "ran"],
        &["update", "a.json", "--", "echo", "{}"],
    ] {
        let said = refused(&doc(&world, arguments.iter().copied()), 65);
        assert!(said.contains("a.json"), "{said}");
        tell(&said);
    }
    assert!(!world.path("ran").exists(), "the command never sees it");
    assert_eq!(
        fs::read(world.path("a.json")).unwrap(),
        content,
        "untouched"
    );
    let written = write(&world, b"{\"good\":true}\n", ["a.json"]);
    assert_eq!(code(&written), 0, "{written:?}");
    assert_eq!(bytes(&world, "a.json"), "{\"good\":true}\n");
    // The content is refused as standard input of a write, and as output of a command, too.
    let said = refused(&write(&world, content, ["a.json"]), 65);
    tell(&said);
    fs::write(world.path("bad"), content).unwrap();
    let said = refused(&doc(&world, ["update", "a.json", "--", "cat", "bad"]), 65);
    tell(&said);
    assert_eq!(bytes(&world, "a.json"), "{\"good\":true}\n", "untouched");
    assert_tidy(&world.path(""), &["a.json", "bad"]);
}

#[test]
fn an_empty_document_is_refused() {
    assert_broken(b"", None);
}

#[test]
fn invalid_json_is_refused_with_the_byte_and_nothing_is_touched() {
    assert_broken(b"{\"n\": 1,}", Some(8));
    assert_broken(b"{\"n\": 01}", None);
    assert_broken(b"{\"n\": 1} x", Some(9));
    assert_broken(b"{\"a\": [1, 2", Some(11));
    assert_broken(b"{\"a\": \"\xff\"}", Some(7));
    assert_broken(b"NaN", Some(0));
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    assert_broken(b"{\"a\": 1, \"b\": 2, \"a\": 3}", Some(17));
    assert_broken(b"[{\"x\": {\"a\": 1, \"\\u0061\": 3}}]", Some(16));
}

#[test]
fn a_document_nested_too_deep_is_refused_without_a_crash() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert_broken(deep.as_bytes(), None);
    }
    let world = World::new();
    let allowed = format!("{}1{}\n", "[".repeat(100), "]".repeat(100));
    put(&world, "a.json", &allowed);
    assert_eq!(done(&world, ["read", "a.json"]), allowed);
}

#[test]
fn utf_16_is_refused() {
    let text = "{\"n\": 1}".encode_utf16();
    let little: Vec<u8> = text.clone().flat_map(u16::to_le_bytes).collect();
    let with_mark: Vec<u8> = [&[0xff, 0xfe][..], &little].concat();
    assert_broken(&little, None);
    assert_broken(&with_mark, Some(0));
    let big: Vec<u8> = text.flat_map(u16::to_be_bytes).collect();
    assert_broken(&big, Some(0));
}

#[test]
fn a_byte_order_mark_stays_and_is_not_part_of_the_text() {
    let world = World::new();
    put(&world, "a.json", "\u{feff}{\"n\":1}\r\n");
    assert_eq!(done(&world, ["read", "a.json"]), "{\"n\":1}\r\n");
    let before = version(&world, "a.json");
    // The command gets the text without the mark; `tee` shows that, while jq would accept either.
    done(
        &world,
        [
            "update",
            "a.json",
            "--",
            "sh",
            "-c",
            "tee seen | sed s/1/2/",
        ],
    );
    assert_eq!(bytes(&world, "seen"), "{\"n\":1}\r\n");
    assert_eq!(bytes(&world, "a.json"), "\u{feff}{\"n\":2}\n");
    assert_ne!(version(&world, "a.json"), before);
}

/// Asserts that every command refuses what is not a regular file, and leaves it as it is.
#[track_caller]
fn assert_no_document(make: &[&str]) {
    let world = World::new();
    let mut maker = Command::new(make[0]);
    maker.args(&make[1..]).current_dir(world.path(""));
    assert!(maker.status().unwrap().success(), "{make:?}");
    let kind = || fs::metadata(world.path("odd")).unwrap().mode() & libc::S_IFMT;
    let before = kind();
    let outputs = [
        doc(&world, ["read", "odd"]),
        doc(&world, ["update", "odd", "--", "touch", "ran"]),
        doc(
            &world,
            ["update", "--create", "{}", "odd", "--", "touch", "ran"],
        ),
        write(&world, b"{}", ["odd"]),
    ];
    for (number, output) in outputs.iter().enumerate() {
        let said = refused(output, 65);
        assert!(said.contains("odd"), "{number}: {said}");
        assert!(said.contains("not a regular file"), "{number}: {said}");
    }
    assert!(!world.path("ran").exists());
    assert_eq!(kind(), before);
}

#[test]
fn a_directory_is_no_document() {
    assert_no_document(&["mkdir", "odd"]);
}

#[test]
fn a_fifo_is_no_document_and_nobody_waits_for_it() {
    assert_no_document(&["mkfifo", "odd"]);
}

#[test]
fn a_device_is_no_document() {
    // The device is that of /dev/null, but in a directory where a lock file could be made.
    assert_no_document(&["mknod", "odd", "c", "1", "3"]);
}
