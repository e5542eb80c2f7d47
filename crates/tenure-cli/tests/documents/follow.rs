//! `tenure doc read --follow`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::site::{Process, RAISE, done, put, version, write};
use crate::world::{World, code, until};

/// Returns the objects it has printed so far; a half line is not counted.
fn printed(follow: &Process) -> Vec<Value> {
    let printed = follow.printed();
    let whole = printed
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[track_caller]
fn until_printed(follow: &Process, count: usize) -> Vec<Value> {
    until(&format!("{count} versions"), || {
        printed(follow).len() >= count
    });
    let printed = printed(follow);
    assert_eq!(
        printed.len(),
        count,
        "no version is printed twice: {printed:?}"
    );
    printed
}

#[test]
fn follow_sees_each_change_one_object_a_line() {
    let world = World::new();
    put(&world, "a.json", "{\n  \"n\": 0\n}\n");
    let mut follow = Process::doc(&world, ["read", "--follow", "--json", "a.json"]);
    until_printed(&follow, 1);
    for n in 1..=10 {
        done(&world, ["update", "a.json"].into_iter().chain(RAISE));
        let printed = until_printed(&follow, n + 1);
        assert_eq!(printed[n]["document"], json!({ "n": n }));
        assert_eq!(printed[n]["version"], version(&world, "a.json").as_str());
    }
    // This program takes no lock, and writes in place.
    put(&world, "a.json", "{\"n\":77}");
    until_printed(&follow, 12);
    assert!(!follow.is_over());
}

#[test]
fn follow_goes_on_when_the_document_is_broken_or_gone() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let follow = Process::doc(&world, ["read", "--follow", "--json", "a.json"]);
    until_printed(&follow, 1);
    put(&world, "a.json", "{\"n\":");
    follow.until_said("not JSON");
    let written = write(&world, b"{\"n\":2}\n", ["a.json"]);
    assert_eq!(code(&written), 0, "{written:?}");
    until_printed(&follow, 2);
    std::fs::remove_file(world.path("a.json")).unwrap();
    follow.until_said("there is no document");
    put(&world, "a.json", "{\"n\":3}\n");
    assert_eq!(until_printed(&follow, 3)[2]["document"], json!({ "n": 3 }));
}

#[test]
fn many_changes_at_once_are_followed_to_the_last() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let follow = Process::doc(&world, ["read", "--follow", "--json", "a.json"]);
    until_printed(&follow, 1);
    let update =
        "for i in 1 2 3 4 5; do \"$TENURE\" doc update --wait 60s a.json -- jq '.n += 1'; done";
    let crowd = [(); 4].map(|()| Process::shell(&world, update));
    for process in crowd {
        assert_eq!(code(&process.end()), 0);
    }
    let last = || printed(&follow).pop().unwrap()["document"]["n"].as_u64();
    until("the last version", || last() == Some(20));
    let seen: Vec<u64> = printed(&follow)
        .iter()
        .map(|version| version["document"]["n"].as_u64().unwrap())
        .collect();
    assert!(
        seen.is_sorted_by(|a, b| a < b),
        "never back, none twice: {seen:?}"
    );
}

#[test]
fn follow_ends_when_nobody_reads_it_any_more() {
    let world = World::new();
    put(&world, "a.json", "{}\n");
    let mut command = world.tenure();
    command.args(["doc", "read", "--follow", "a.json"]);
    let mut follow = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(follow.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "{}\n");
    assert!(follow.try_wait().unwrap().is_none(), "there may be more");
    drop(output);
    until("it has ended", || follow.try_wait().unwrap().is_some());
}
