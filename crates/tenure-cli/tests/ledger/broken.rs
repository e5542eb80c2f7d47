//! Gaps, torn and foreign files, a full disk; verify and repair.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::place::{Place, X, claim_event};
use crate::world::{code, json, text};

/// A ledger with so many events.
fn with(events: u64) -> Place {
    let place = Place::new();
    for _ in 0..events {
        place.done(&["append", "p", X]);
    }
    place
}

/// What `verify` finds: the code, and the file and problem of each.
fn findings(place: &Place, more: &[&str]) -> (i32, Vec<(String, String)>) {
    let output = place.call(&[&["verify", "p", "--json"], more].concat());
    let found = json(&output.stdout);
    let word = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let found = found["findings"].as_array().unwrap().iter();
    let found = found.map(|finding| (word(finding, "file"), word(finding, "problem")));
    (code(&output), found.collect())
}

fn files(found: &[(String, String)]) -> Vec<&str> {
    found.iter().map(|(file, _)| file.as_str()).collect()
}

#[test]
fn a_ledger_in_order_has_no_findings() {
    let place = with(3);
    assert_eq!(findings(&place, &[]), (0, vec![]));
    assert_eq!(place.json(&["verify", "p"])["events"], 3);
}

#[test]
fn readers_stop_at_a_gap_and_what_lies_behind_it_is_moved_aside_and_told() {
    let place = with(2);
    // As a power loss leaves it: the note of the newest event is older, or none.
    place.put(4, X);
    fs::remove_file(place.path(".newest")).unwrap();
    assert_eq!(
        place.json(&["log", "p"])["events"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let (exit, found) = findings(&place, &[]);
    assert_eq!(
        (exit, files(&found)),
        (65, vec!["event-000003.json", "event-000004.json"])
    );
    let appended = place.call(&["append", "p", "{\"type\":\"third\"}"]);
    assert_eq!(text(&appended.stdout), "3\n", "{appended:?}");
    let said = text(&appended.stderr);
    assert!(
        said.contains("event-000004.json") && said.contains(".aside"),
        "{said}"
    );
    assert_eq!(place.kinds(), ["x", "x", "third"]);
    assert_eq!(findings(&place, &[]), (0, vec![]));
    let kept = |name: &String| name.starts_with(".event-000004.json.") && name.ends_with(".aside");
    assert!(
        place.names().iter().any(kept),
        "it is kept: {:?}",
        place.names()
    );
}

#[test]
fn an_event_that_someone_removed_is_a_gap_that_is_told_and_not_made_worse() {
    let mut place = with(1);
    place.stays_broken();
    for sequence in 2..=80 {
        place.put(sequence, X);
    }
    fs::remove_file(place.path("event-000005.json")).unwrap();
    fs::remove_file(place.path(".newest")).unwrap();
    let said = place.refused(65, &["append", "p", X]);
    assert!(
        said.contains("event-000005.json") && said.contains("gap"),
        "{said}"
    );
    let (exit, found) = findings(&place, &["--repair"]);
    assert_eq!((exit, found.len()), (65, 76));
    assert_eq!(place.events(), 79, "nothing is moved");
    place.put(5, X);
    assert_eq!(place.done(&["append", "p", X]), "81");
}

#[test]
fn an_empty_event_is_told_by_its_name_and_moved_aside_if_it_is_the_newest() {
    let place = with(2);
    for (sequence, content) in [(3, ""), (4, "{\"type\":\"x\""), (5, "\0\0\0\0")] {
        let path = place.path(&format!("event-00000{sequence}.json"));
        fs::write(path, content).unwrap();
    }
    for arguments in [
        &["append", "p", X][..],
        &["claim", "p", "1"],
        &["log", "p"],
        &["claims", "p"],
    ] {
        let said = place.refused(65, arguments);
        assert!(
            said.contains("event-00000") && said.contains("tenure ledger verify"),
            "{said}"
        );
    }
    let torn = vec![
        "event-000003.json",
        "event-000004.json",
        "event-000005.json",
    ];
    let (exit, found) = findings(&place, &[]);
    assert_eq!((exit, files(&found)), (65, torn.clone()));
    assert!(
        found[0].1.contains("empty") && found[2].1.contains("zeros"),
        "{found:?}"
    );
    let (exit, found) = findings(&place, &["--repair"]);
    assert_eq!((exit, files(&found)), (0, torn));
    assert_eq!(place.done(&["append", "p", X]), "3");
    assert_eq!(findings(&place, &[]), (0, vec![]));
}

#[test]
fn a_torn_event_among_others_is_told_and_left() {
    let mut place = with(3);
    place.stays_broken();
    fs::write(place.path("event-000002.json"), "").unwrap();
    let (exit, found) = findings(&place, &["--repair"]);
    assert_eq!((exit, files(&found)), (65, vec!["event-000002.json"]));
    assert_eq!(place.events(), 3);
}

#[test]
fn foreign_files_and_wrong_names_are_told_and_repair_keeps_what_it_takes_out() {
    let place = with(1);
    for name in ["notes.txt", "event-2.json", "event-0000003.json"] {
        fs::write(place.path(name), "{}").unwrap();
    }
    // What a process that died long ago left, ours and a stranger's.
    for name in [".event-new.0123456789abcdef.tmp", ".event-x8Yq2.tmp"] {
        fs::write(place.path(name), X).unwrap();
        let touched = Command::new("touch")
            .args(["-d", "1 hour ago"])
            .arg(place.path(name))
            .status();
        assert!(touched.unwrap().success());
    }
    fs::write(place.path(".event-live1.tmp"), X).unwrap();
    let (exit, found) = findings(&place, &[]);
    assert_eq!((exit, found.len()), (65, 5), "{found:?}");
    assert!(
        !files(&found).contains(&".event-live1.tmp"),
        "it may be in use"
    );
    assert_eq!(
        place.done(&["append", "p", X]),
        "2",
        "nothing of it is in the way"
    );
    let (exit, _) = findings(&place, &["--repair"]);
    assert_eq!(exit, 65, "a file that is nobody's business stays");
    assert_eq!(files(&findings(&place, &[]).1), ["notes.txt"]);
    let kept = place
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".aside"))
        .count();
    assert_eq!(kept, 2);
}

#[test]
fn an_event_over_a_megabyte_is_refused_and_one_that_others_wrote_is_told() {
    let mut place = with(1);
    let event = format!("{{\"type\":\"{}\"}}", "x".repeat(1_000_000));
    let mut command = place.command(&["append", "p", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have seen enough before all of it is written.
    let _ = child.stdin.take().unwrap().write_all(event.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(text(&output.stderr).contains("1000000"), "{output:?}");
    assert_eq!(place.events(), 1);
    place.put(2, &event);
    place.stays_broken();
    assert_eq!(files(&findings(&place, &[]).1), ["event-000002.json"]);
    place.refused(65, &["append", "p", X]);
}

#[test]
fn an_event_that_was_edited_is_found_by_verify() {
    let mut place = with(1);
    for sequence in 2..=300 {
        place.put(sequence, X);
    }
    place.done(&["claims", "p"]);
    assert!(place.path(".snapshot.json").exists());
    assert_eq!(findings(&place, &[]), (0, vec![]));
    place.put(7, "{\"type\":\"y\"}");
    place.done(&["claims", "p"]);
    let (exit, found) = findings(&place, &[]);
    assert_eq!((exit, files(&found)), (65, vec![".snapshot.json"]));
    assert!(found[0].1.contains("edited"), "{found:?}");
    // The same with one that changes who has what.
    let until = Some("2099-01-01T00:00:00Z");
    place.put(
        8,
        &claim_event("lock_released", "1", "a", "2024-01-01T00:00:00Z", until),
    );
    place.stays_broken();
    let (_, found) = findings(&place, &[]);
    assert_eq!(files(&found), ["event-000008.json", ".snapshot.json"]);
}

#[test]
fn on_a_full_disk_nothing_is_appended_and_nothing_is_left() {
    let place = with(0);
    let (ledger, here) = (place.world.path("p/ledger"), place.world.path("p"));
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"])
        .arg(&ledger)
        .status();
    assert!(mounted.unwrap().success());
    let tried = std::panic::catch_unwind(|| {
        assert_eq!(place.done(&["append", "p", X]), "1");
        let mut filler = File::create(ledger.join("filler")).unwrap();
        for size in [4096, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
        for arguments in [&["append", "p", X][..], &["claim", "p", "1"]] {
            let said = place.refused(69, arguments);
            assert!(said.contains("space"), "{said}");
            assert_eq!(place.events(), 1);
            let left = place
                .names()
                .into_iter()
                .filter(|name| name.contains(".tmp"))
                .count();
            assert_eq!(left, 1, "{:?}", place.names());
        }
        assert!(!ledger.join("ledger.lock").exists());
        drop(filler);
        fs::remove_file(ledger.join("filler")).unwrap();
        assert_eq!(place.done(&["append", "p", X]), "2");
        crate::place::judge(&[&here]);
    });
    let unmounted = Command::new("umount").arg("--lazy").arg(&ledger).status();
    assert!(unmounted.unwrap().success());
    tried.unwrap();
}
