//! `doc update` on several documents.

use super::commands::{doc, get, put};
use crate::world::{World, code, text};

fn world() -> World {
    let world = World::new();
    put(&world, "a.json", "{\"n\":1.50}");
    put(&world, "b.json", "{\n    \"n\": 2\n}\n");
    world
}

#[test]
fn all_change_in_one_step_and_keep_their_looks() {
    let world = world();
    let script = ".[\"b.json\"].m = 3 | .[\"a.json\"].n = 4";
    let arguments = ["update", "b.json", "a.json", "--json", "--", "jq", script];
    let output = doc(&world, arguments);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(get(&world, "a.json"), "{\"n\":4}");
    assert_eq!(get(&world, "b.json"), "{\n    \"n\": 2,\n    \"m\": 3\n}\n");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = world.json(["doc", "read", "b.json", "a.json"]);
    for number in [0, 1] {
        for field in ["file", "version"] {
            assert_eq!(
                printed["documents"][number][field],
                read["documents"][number][field]
            );
        }
    }
    assert!(printed["next"].is_null());
}

#[test]
fn the_numbers_of_documents_do_not_change_on_their_way() {
    let world = world();
    assert_eq!(
        code(&doc(
            &world,
            ["update", "a.json", "b.json", "--", "sed", "s/2/3/"]
        )),
        0
    );
    assert_eq!(get(&world, "a.json"), "{\"n\":1.50}");
    assert_eq!(get(&world, "b.json"), "{\n    \"n\": 3\n}\n");
}

#[test]
fn none_changes_if_the_command_fails_or_does_not_print_all() {
    let world = world();
    let before = (get(&world, "a.json"), get(&world, "b.json"));
    for (script, expected, said) in [
        (
            "echo '{}'; exit 3",
            3,
            "sh exited with 3; the documents are untouched",
        ),
        ("echo '{\"a.json\":1}'", 65, "without the key \"b.json\""),
        (
            "echo '{\"a.json\":1,\"b.json\":2,\"c\":3}'",
            65,
            "with the key \"c\"",
        ),
        (
            "echo '{\"a.json\":1,\"b.json\":2,\"a.json\":3}'",
            65,
            "the key \"a.json\" is there twice",
        ),
        (
            "echo '{\"a.json\":1,\"b.json\":{\"x\":1,\"x\":2}}'",
            65,
            "at byte 28",
        ),
        ("echo '{\"a.json\":1,\"b.json\":'", 65, "at byte "),
        ("echo '[]'", 65, "that is no object"),
    ] {
        let output = doc(
            &world,
            ["update", "a.json", "b.json", "--", "sh", "-c", script],
        );
        assert_eq!(code(&output), expected, "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
        assert_eq!((get(&world, "a.json"), get(&world, "b.json")), before);
    }
}

#[test]
fn those_that_are_missing_are_made_where_it_is_said_with_what() {
    let world = world();
    let output = doc(&world, ["update", "a.json", "new.json", "--", "cat"]);
    assert_eq!(code(&output), 66, "{output:?}");
    assert!(text(&output.stderr).contains("new.json"), "{output:?}");
    let arguments = [
        "update",
        "--create",
        "{\"n\":7}",
        "a.json",
        "new.json",
        "--",
        "cat",
    ];
    assert_eq!(code(&doc(&world, arguments)), 0);
    assert_eq!(get(&world, "new.json"), "{\n  \"n\": 7\n}\n");
}

#[test]
fn one_document_under_two_names_is_refused() {
    let world = world();
    let output = doc(&world, ["update", "a.json", "./a.json", "--", "cat"]);
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(text(&output.stderr).contains("named twice"), "{output:?}");
}

#[test]
fn documents_shared_with_node_cannot_be_changed_together() {
    let world = world();
    let arguments = [
        "update",
        "--compat",
        "proper-lockfile",
        "a.json",
        "b.json",
        "--",
        "cat",
    ];
    let output = doc(&world, arguments);
    assert_eq!(code(&output), 76, "{output:?}");
}
