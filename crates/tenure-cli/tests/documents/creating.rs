//! Several processes that create one document.

use serde_json::json;

use crate::site::{Process, assert_tidy, bytes, done, read};
use crate::world::{World, code, text};

/// Lets so many processes create a document and raise it; it is created once, with all updates.
#[track_caller]
fn assert_one_creation(world: &World, name: &str, many: usize) {
    // The command notes its input: only one of them gets the initial content.
    let work = "tee -a given | jq '.n += 1'";
    let update = [
        "update",
        "--wait",
        "60s",
        "--create",
        "{\"n\":0}",
        name,
        "--",
        "sh",
        "-c",
        work,
    ];
    let crowd: Vec<Process> = (0..many).map(|_| Process::doc(world, update)).collect();
    for process in crowd {
        let output = process.end();
        assert_eq!(code(&output), 0, "{output:?}");
    }
    assert_eq!(read(world, name), json!({ "n": many }));
    let given = bytes(world, "given");
    let given = serde_json::Deserializer::from_str(&given).into_iter::<serde_json::Value>();
    let mut given: Vec<u64> = given.map(|it| it.unwrap()["n"].as_u64().unwrap()).collect();
    given.sort();
    assert_eq!(
        given,
        (0..many as u64).collect::<Vec<_>>(),
        "each found what the one before left"
    );
    std::fs::remove_file(world.path("given")).unwrap();
}

#[test]
fn two_processes_that_create_one_document_create_it_once_and_both_update_it() {
    let world = World::new();
    let names: Vec<String> = (0..10).map(|round| format!("{round}.json")).collect();
    for name in &names {
        assert_one_creation(&world, name, 2);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_tidy(&world.path(""), &names);
}

#[test]
fn sixteen_processes_that_create_one_document_create_it_once() {
    let world = World::new();
    assert_one_creation(&world, "a.json", 16);
    assert_tidy(&world.path(""), &["a.json"]);
}

#[test]
fn all_who_read_and_create_see_the_one_that_was_created() {
    let world = World::new();
    let crowd: Vec<Process> = (0..8)
        .map(|number| {
            let content = format!("{{\"by\":{number}}}");
            Process::doc(&world, ["read", "--create", &content, "a.json"])
        })
        .collect();
    for process in crowd {
        let output = process.end();
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(text(&output.stdout), bytes(&world, "a.json"));
    }
    done(&world, ["clean", "--yes", "a.json"]);
    assert_tidy(&world.path(""), &["a.json"]);
}
