//! Files edited, deleted and merged by hand; boards of another program.

use std::fs;

use serde_json::{Value, json};

use crate::place::Place;
use crate::world::code;

/// Every change of it is refused with 65 and names its file, and the others are usable.
fn assert_broken(place: &Place, id: &str, problem: &str) {
    let file = format!("issues/{id}.json");
    for arguments in [
        &["show", id][..],
        &["set", id, "priority=1"],
        &["note", id, "x"],
        &["claim", id],
        &["done", id],
    ] {
        let said = place.refused(65, arguments);
        assert!(said.contains(&file) && said.contains(problem), "{said}");
    }
    let listed = place.json(&["ls"]);
    assert_eq!(listed["unreadable"][0]["id"], id, "{listed}");
    assert!(
        listed["unreadable"][0]["problem"]
            .as_str()
            .unwrap()
            .contains(problem)
    );
    assert!(place.done(&["ls"]).contains("broken"));
    place.done(&["note", "good", "x"]);
    assert_eq!(place.done(&["next"]), "good");
    place.done(&["add", "another"]);
}

#[test]
fn an_issue_with_conflict_markers_is_named_and_the_rest_is_usable() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["bad", "good"]);
    let path = place.path("issues/bad.json");
    let text = fs::read_to_string(&path).unwrap();
    let title = "  \"title\": \"bad\",\n";
    let merged = format!("<<<<<<< HEAD\n{title}=======\n  \"title\": \"worse\",\n>>>>>>> theirs\n");
    let broken = text.replace(title, &merged);
    fs::write(&path, &broken).unwrap();
    assert_broken(&place, "bad", "conflict markers");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        broken,
        "it is left alone"
    );
    place.refused(65, &["delete", "bad"]);
    fs::write(&path, text).unwrap();
    place.done(&["claim", "bad"]);
}

#[test]
fn an_issue_broken_by_hand_is_named_and_one_edited_well_is_taken_as_it_is() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["bad", "good"]);
    let path = place.path("issues/bad.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 5]).unwrap();
    assert_broken(&place, "bad", "not JSON");
    let edited = text.replace(
        "\"title\": \"bad\"",
        "\"estimate\": \"3d\",\n  \"title\": \"by hand\"",
    );
    fs::write(&path, edited).unwrap();
    place.done(&["set", "bad", "priority=0"]);
    let issue = place.issue("bad");
    assert_eq!(
        (&issue["title"], &issue["estimate"], &issue["priority"]),
        (&json!("by hand"), &json!("3d"), &json!(0))
    );
}

#[test]
fn an_issue_deleted_by_hand_is_named_and_can_be_taken_out_of_the_index() {
    let place = Place::new();
    place.add(&["bad", "good"]);
    fs::remove_file(place.path("issues/bad.json")).unwrap();
    assert_broken(&place, "bad", "it is missing, though index.json lists it");
    place.done(&["delete", "bad"]);
    place.refused(66, &["show", "bad"]);
    assert_eq!(place.json(&["ls"])["unreadable"], json!([]));
}

#[test]
fn a_broken_index_is_named() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["a"]);
    let index = fs::read_to_string(place.path("index.json")).unwrap();
    fs::write(place.path("index.json"), format!("<<<<<<< HEAD\n{index}")).unwrap();
    for arguments in [&["ls"][..], &["add", "x"], &["delete", "a"]] {
        assert!(place.refused(65, arguments).contains("index.json"));
    }
    // An issue can be read and changed without it.
    place.done(&["note", "a", "x"]);
}

#[test]
fn a_board_of_jit_is_listed_and_its_issues_refuse_changes() {
    let mut place = Place::new();
    place.stays_broken();
    let root = place.root();
    fs::remove_dir_all(&root).unwrap();
    fs::create_dir_all(root.join("issues")).unwrap();
    let theirs = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    let index =
        json!({"schema_version": 1, "all_ids": [theirs], "deleted_ids": [], "theirs": true});
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    let issue = json!({"id": theirs, "title": "Their issue", "description": "x", "state": "ready", "priority": "high", "dependencies": []});
    let path = root.join(format!("issues/{theirs}.json"));
    fs::write(&path, issue.to_string()).unwrap();
    let event = json!({"type": "issue_created", "id": "1", "issue_id": theirs, "timestamp": "2025-12-03T10:00:00Z"});
    fs::write(root.join("events.jsonl"), format!("{event}\n")).unwrap();
    let listed = place.json(&["ls"]);
    assert_eq!(listed["unreadable"][0]["title"], "Their issue", "{listed}");
    assert!(place.done(&["ls"]).contains("foreign"));
    for arguments in [
        &["show", theirs][..],
        &["claim", theirs],
        &["set", theirs, "title=x"],
    ] {
        let said = place.refused(65, arguments);
        assert!(said.contains("another shape"), "{said}");
        assert!(
            said.contains("only listed here") && !said.contains("put back"),
            "{said}"
        );
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), issue.to_string());
    // Ours live beside it.
    let ours = place.done(&["add", "Our issue"]);
    assert_eq!(place.done(&["next", "--claim"]), ours);
    let index: Value = serde_json::from_slice(&fs::read(root.join("index.json")).unwrap()).unwrap();
    assert_eq!(
        (&index["all_ids"], &index["theirs"]),
        (&json!([theirs, ours]), &json!(true))
    );
    let events = place.json(&["events"]);
    assert_eq!(events["events"][0]["event"], event);
    assert_eq!(events["events"].as_array().unwrap().len(), 3);
    assert!(root.join(".index.lock").exists() && root.join(format!("issues/{ours}.lock")).exists());
}

#[test]
fn a_board_that_may_only_be_read_is_read() {
    let place = Place::new();
    place.add(&["a"]);
    place.done(&["note", "a", "x"]);
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    let read = |arguments: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        place.world.prepare(&mut command);
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(place.root());
        command.args([env!("CARGO_BIN_EXE_tenure"), "board"]);
        command.args(place.on(arguments)).output().unwrap()
    };
    for arguments in [&["ls"][..], &["show", "a"], &["events"], &["next"]] {
        let output = read(arguments);
        assert_eq!(code(&output), 0, "{output:?}");
    }
    let refused = read(&["note", "a", "y"]);
    let said = crate::world::text(&refused.stderr);
    assert_eq!(code(&refused), 69);
    assert!(
        said.contains("--dir") && !said.contains("--store"),
        "{said}"
    );
}

#[test]
fn an_id_that_a_merge_left_twice_is_listed_once() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["a", "b"]);
    let index = fs::read_to_string(place.path("index.json")).unwrap();
    let twice = index.replace("\"b\"", "\"b\",\n    \"a\"");
    fs::write(place.path("index.json"), twice).unwrap();
    assert_eq!(place.json(&["ls"])["issues"].as_array().unwrap().len(), 2);
}

#[test]
fn broken_gates_refuse_only_those_who_need_them() {
    let mut place = Place::new();
    place.stays_broken();
    fs::write(place.path("gates.json"), "{").unwrap();
    place.done(&["add", "x"]);
    for arguments in [
        &["add", "x", "--gate", "review"][..],
        &["gate", "define", "review"],
    ] {
        assert!(place.refused(65, arguments).contains("gates.json"));
    }
}

#[test]
fn a_pending_change_that_is_broken_is_named_with_what_is_lost_without_it() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["a"]);
    let name = "3f2a9c00-1111-4222-8333-444455556666.json";
    fs::write(place.path(".pending").join(name), "{").unwrap();
    let said = place.refused(65, &["ls"]);
    assert!(
        said.contains(name) && said.contains("is lost then"),
        "{said}"
    );
    assert!(!said.contains("put back"), "{said}");
    fs::remove_file(place.path(".pending").join(name)).unwrap();
    place.done(&["ls"]);
}
