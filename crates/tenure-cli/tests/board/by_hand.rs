//! Files edited, deleted and merged by hand; boards of another program.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use serde_json::json;

use crate::place::{Place, judge};
use crate::world::{code, text};

/// Asserts that every use of the issue is refused with 65 and names its file, and that the other
/// issues are usable.
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
    // An issue can be read and changed without the index.
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
    // The list of that program would not show an issue added here, and its code could not read a
    // gate of ours.
    for arguments in [&["add", "Our issue"][..], &["gate", "define", "review"]] {
        let said = place.refused(65, arguments);
        assert!(said.contains("would not show what is added here"), "{said}");
        assert!(
            said.contains("index.json") && said.contains("--dir DIR"),
            "{said}"
        );
    }
    assert_eq!(
        fs::read_to_string(root.join("index.json")).unwrap(),
        index.to_string()
    );
    let events = place.json(&["events"]);
    assert_eq!(events["events"][0]["event"], event);
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
    assert!(root.join(".index.lock").exists());
    // A board of that program without issues is recognised by its schema.
    let index = json!({"schema_version": 2, "all_ids": [], "deleted_ids": []});
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    place.refused(65, &["add", "Our issue"]);
}

#[test]
fn of_many_issues_that_cannot_be_read_next_names_a_few_and_says_how_many() {
    let mut place = Place::new();
    place.stays_broken();
    let ids: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
    let index = json!({"schema_version": 1, "all_ids": ids});
    fs::write(place.path("index.json"), index.to_string()).unwrap();
    for arguments in [
        &["next"][..],
        &["next", "--wait", "10s"],
        &["run", "--", "true"],
    ] {
        let said = place.refused(65, arguments);
        assert!(said.contains("nor can m1, m2, m3 and 496 more"), "{said}");
        assert!(said.len() < 1000, "{said}");
    }
}

#[test]
fn an_issue_that_the_index_does_not_list_is_found_and_listed() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["a", "b", "gone"]);
    place.done(&["delete", "gone"]);
    let index = fs::read_to_string(place.path("index.json")).unwrap();
    fs::write(place.path("index.json"), index.replace("\"a\",", "")).unwrap();
    fs::write(place.path("issues/noise.json"), "{").unwrap();
    let gone = fs::read_to_string(place.path("issues/a.json")).unwrap();
    let gone = gone.replace("\"a\"", "\"gone\"");
    fs::write(place.path("issues/gone.json"), gone).unwrap();
    let found = place.call(&["verify", "--repair", "--json"]);
    assert_eq!(code(&found), 65, "{found:?}");
    let found = crate::world::json(&found.stdout);
    let findings = found["findings"].as_array().unwrap().iter();
    let findings: Vec<_> = findings
        .map(|finding| {
            (
                finding["file"].as_str().unwrap(),
                finding["repair"].as_str().unwrap(),
            )
        })
        .collect();
    let by_hand = "correct it, or put back an older one";
    assert_eq!(
        findings,
        [
            ("issues/a.json", "it is listed"),
            ("issues/gone.json", by_hand),
            ("issues/noise.json", by_hand),
        ]
    );
    place.refused(66, &["show", "gone2"]);
    fs::remove_file(place.path("issues/gone.json")).unwrap();
    fs::remove_file(place.path("issues/noise.json")).unwrap();
    assert!(place.done(&["verify"]).is_empty());
    judge(&place.root());
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
    fs::write(place.path(".pending").join(name), "{}").unwrap();
    let said = place.refused(65, &["ls"]);
    assert!(
        said.contains(name) && said.contains("is lost then"),
        "{said}"
    );
    assert!(!said.contains("put back"), "{said}");
    // A change that the power cut short was acknowledged to no caller.
    for torn in ["", "{\"boot_id\":\"0b2f", "\0\0\0\0"] {
        fs::write(place.path(".pending").join(name), torn).unwrap();
        place.done(&["ls"]);
        assert!(!place.path(".pending").join(name).exists(), "{torn:?}");
    }
}

/// The refusal comes before the commit: no other process has to finish what this user cannot.
#[test]
fn a_change_of_an_issue_that_belongs_to_another_user_is_refused_and_keeps_nobody_from_the_rest() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let tenure = place.world.copy_of_tenure();
    let root = place.root();
    for open in [place.world.path(""), root.parent().unwrap().to_owned()] {
        fs::set_permissions(open, Permissions::from_mode(0o755)).unwrap();
    }
    let mut chown_all = Command::new("chown");
    let chowned = chown_all.args(["-R", "65534:65534"]).arg(&root).status();
    assert!(chowned.unwrap().success());
    chown(place.path("issues/b.json"), Some(0), Some(0)).unwrap();
    let readable = Permissions::from_mode(0o644);
    fs::set_permissions(place.path("issues/b.json"), readable).unwrap();
    let as_another = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        place.world.prepare(&mut command);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(&tenure).arg("board").args(arguments);
        command.arg("--dir").arg(&root).output().unwrap()
    };
    for arguments in [&["note", "b", "x"][..], &["claim", "b", "--owner", "o"]] {
        let output = as_another(arguments);
        assert_eq!(code(&output), 77, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("issues/b.json belongs to another"), "{said}");
    }
    for arguments in [
        &["ls"][..],
        &["show", "a"],
        &["note", "a", "x"],
        &["add", "c"],
    ] {
        let output = as_another(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
    }
}
