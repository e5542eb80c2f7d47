//! `doc read`.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::thread;

use super::commands::{Worker, doc, get, put};
use crate::terminal::Terminal;
use crate::world::{World, code, json, text};

/// Numbers that no float can hold, and spellings that a program would change.
const NUMBERS: &str =
    "{\n  \"a\": 1.50,\n  \"b\": 123456789012345678901234567890,\n  \"c\": 1e400\n}";

#[test]
fn a_document_is_printed_byte_for_byte() {
    let world = World::new();
    put(&world, "a.json", NUMBERS);
    let output = doc(&world, ["read", "a.json"]);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, NUMBERS));
    put(&world, "a.json", "\u{feff}[1]\r\n");
    let output = doc(&world, ["read", "a.json"]);
    assert_eq!(
        text(&output.stdout),
        "[1]\r\n",
        "without the byte order mark"
    );
}

#[test]
fn json_has_the_version_and_the_very_numbers_of_the_document() {
    let world = World::new();
    put(&world, "a.json", NUMBERS);
    let output = doc(&world, ["read", "a.json", "--json"]);
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 1, "{said}");
    let document = "\"document\":{\"a\":1.50,\"b\":123456789012345678901234567890,\"c\":1e400}}\n";
    assert!(said.ends_with(document), "{said}");
    let version = said.split('"').nth(3).unwrap();
    let sum = std::process::Command::new("sha256sum")
        .arg(world.path("a.json"))
        .output();
    assert!(text(&sum.unwrap().stdout).starts_with(version), "{said}");
}

#[test]
fn what_is_missing_is_66_and_what_is_broken_65_with_the_byte() {
    let world = World::new();
    let output = doc(&world, ["read", "none.json"]);
    assert_eq!(code(&output), 66, "{output:?}");
    assert!(text(&output.stderr).contains("there is no document none.json"));
    for (broken, at) in [
        ("{\"a\": x}", "byte 6"),
        ("{\"a\":1,\"a\":2}", "byte 7"),
        ("", "byte 0"),
    ] {
        put(&world, "a.json", broken);
        let output = doc(&world, ["read", "a.json"]);
        assert_eq!(code(&output), 65, "{output:?}");
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(
            said.contains("a.json: not JSON at ") && said.contains(at),
            "{said}"
        );
        assert!(said.contains("tenure doc write FILE"), "{said}");
        let output = doc(&world, ["read", "a.json", "--json"]);
        assert_eq!(json(&output.stdout)["error"]["kind"], "bad_input");
    }
}

#[test]
fn a_way_that_leads_nowhere_is_66_and_what_is_no_file_65() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    for arguments in [
        &["read", "no/a.json"][..],
        &["read", "a.json/b.json"],
        &["read", "--follow", "no/a.json"],
        &["read", "a.json", "no/b.json"],
    ] {
        let output = doc(&world, arguments.iter().copied());
        assert_eq!(code(&output), 66, "{output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("correct the path") && !said.contains("--store"),
            "{said}"
        );
    }
    let output = doc(&world, ["read", "."]);
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(
        text(&output.stderr).contains("name a document"),
        "{output:?}"
    );
}

#[test]
fn create_makes_what_is_missing_and_leaves_what_is_there() {
    let world = World::new();
    let read = || doc(&world, ["read", "--create", "{\"n\":1.50}", "a.json"]);
    let output = read();
    assert_eq!(
        (code(&output), text(&output.stdout).as_str()),
        (0, "{\"n\":1.50}\n")
    );
    assert_eq!(get(&world, "a.json"), "{\"n\":1.50}\n");
    put(&world, "a.json", "{\"n\":2}");
    assert_eq!(text(&read().stdout), "{\"n\":2}");
    let output = doc(&world, ["read", "--create", "{n}", "b.json"]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(!world.path("b.json").exists());
}

#[test]
fn two_that_make_one_document_read_the_same() {
    let world = World::new();
    let read = |text: &'static str| {
        let mut command = world.tenure();
        command
            .args(["doc", "read", "--create", text, "a.json"])
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let readers: Vec<Child> = ["1", "2", "3", "4"].map(read).into();
    let outputs = readers
        .into_iter()
        .map(|reader| reader.wait_with_output().unwrap());
    let read: Vec<String> = outputs.map(|output| text(&output.stdout)).collect();
    assert!(
        read.iter().all(|text| *text == get(&world, "a.json")),
        "{read:?}"
    );
}

#[test]
fn several_are_printed_in_the_order_they_are_named() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":1}");
    put(&world, "b.json", "[2]\n");
    let output = doc(&world, ["read", "b.json", "a.json"]);
    assert_eq!(text(&output.stdout), "[2]\n{\"n\":1}\n");
    let output = world.json(["doc", "read", "b.json", "a.json"]);
    let documents = output["documents"].as_array().unwrap();
    assert_eq!(documents[0]["file"], "b.json");
    assert_eq!(documents[0]["document"], serde_json::json!([2]));
    assert_eq!(documents[1]["document"]["n"], 1);
    assert_eq!(documents[1]["version"].as_str().unwrap().len(), 64);
    assert!(output["next"].is_null());
}

#[test]
fn several_are_read_as_they_are_at_one_moment() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}");
    put(&world, "b.json", "{\"n\":0}");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..15 {
                let raise = "map_values(.n += 1)";
                let output = doc(&world, ["update", "a.json", "b.json", "--", "jq", raise]);
                assert_eq!(code(&output), 0, "{output:?}");
            }
        });
        while !writer.is_finished() {
            let read = world.json(["doc", "read", "a.json", "b.json"]);
            let documents = &read["documents"];
            assert_eq!(documents[0]["document"], documents[1]["document"]);
        }
    });
    assert_eq!(get(&world, "b.json"), "{\"n\":15}");
}

#[test]
fn on_a_terminal_the_text_ends_with_a_newline() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" doc read a.json; echo end\n");
    terminal.expect("[1]\r\nend");
}

/// A `doc read --follow`, and the lines that it prints.
struct Follower {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    words: Lines<BufReader<ChildStderr>>,
}

impl Follower {
    fn of(world: &World, arguments: &[&str]) -> Self {
        let mut command = world.tenure();
        command.args(["doc", "read", "--follow"]).args(arguments);
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let words = BufReader::new(process.stderr.take().unwrap()).lines();
        Self {
            process,
            lines,
            words,
        }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn word(&mut self) -> String {
        self.words.next().unwrap().unwrap()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_follower_sees_every_change_on_a_line_of_its_own() {
    let world = World::new();
    put(&world, "a.json", "{\n  \"n\": 1.50\n}\n");
    let mut follower = Follower::of(&world, &["a.json", "--json"]);
    assert!(follower.line().ends_with("\"document\":{\"n\":1.50}}"));
    for n in 2..5 {
        let script = format!(".n = {n}");
        let output = doc(&world, ["update", "a.json", "--", "jq", &script]);
        let line: serde_json::Value = serde_json::from_str(&follower.line()).unwrap();
        assert_eq!(line["document"]["n"], n);
        assert_eq!(line["version"], text(&output.stdout).trim());
    }
    put(&world, "b.json", "[1]");
    let mut follower = Follower::of(&world, &["b.json"]);
    assert_eq!(
        follower.line(),
        "[1]",
        "with a newline, so that the next begins a line"
    );
    doc(&world, ["update", "b.json", "--", "echo", "[2]"]);
    assert_eq!(follower.line(), "[2]");
}

#[test]
fn a_follower_goes_on_after_a_broken_version_and_after_the_document_is_gone() {
    let world = World::new();
    let mut follower = Follower::of(&world, &["a.json"]);
    assert!(follower.word().contains("there is no document a.json"));
    put(&world, "a.new", "[1]\n");
    std::fs::rename(world.path("a.new"), world.path("a.json")).unwrap();
    assert_eq!(follower.line(), "[1]");
    put(&world, "a.new", "{broken");
    std::fs::rename(world.path("a.new"), world.path("a.json")).unwrap();
    assert!(follower.word().contains("not JSON at byte 1"));
    std::fs::remove_file(world.path("a.json")).unwrap();
    assert!(follower.word().contains("there is no document a.json"));
    put(&world, "a.new", "[2]\n");
    std::fs::rename(world.path("a.new"), world.path("a.json")).unwrap();
    assert_eq!(follower.line(), "[2]");
}

#[test]
fn one_document_is_followed_at_a_time() {
    let world = World::new();
    let output = doc(&world, ["read", "--follow", "a.json", "b.json"]);
    assert_eq!(code(&output), 2, "{output:?}");
}

#[test]
fn a_follower_that_does_not_wait_is_75_while_someone_works_on_it() {
    let world = World::new();
    put(&world, "a.json", "{}");
    let worker = Worker::on(&world, "a.json");
    let output = doc(&world, ["read", "--follow", "--no-wait", "a.json"]);
    assert_eq!(code(&output), 75, "{output:?}");
    drop(worker);
}
