//! Gaps, torn and foreign files, a full disk; verify and repair.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::place::{Place, X, claim_event};
use crate::world::{code, json, text};

/// Makes a ledger with so many events.
fn with(events: u64) -> Place {
    let place = Place::new();
    for _ in 0..events {
        place.done(&["append", "p", X]);
    }
    place
}

/// Returns the exit code of `verify`, and the file and the problem of each finding.
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

/// Asserts that append, claim, reap and the readers answer 65, name this event, change nothing.
#[track_caller]
fn assert_refused_naming(place: &Place, event: &str) {
    let before = place.names();
    for arguments in [
        &["append", "p", X][..],
        &["claim", "p", "9", "--owner", "agent:2"],
        &["reap", "p"],
        &["log", "p"],
        &["claims", "p"],
    ] {
        let said = place.refused(65, arguments);
        assert!(said.contains(event), "{arguments:?}: {said}");
    }
    assert_eq!(findings(place, &["--repair"]).0, 65);
    let mut after = place.names();
    after.retain(|name| before.contains(name));
    assert_eq!(after, before, "nothing is moved");
}

#[test]
fn an_event_that_is_missing_gives_a_held_node_no_second_holder() {
    let mut place = with(3);
    place.stays_broken();
    assert_eq!(
        place.done(&["claim", "p", "n", "--owner", "agent:1"]),
        "n#4"
    );
    for name in ["event-000002.json", ".newest"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    let said = place.refused(65, &["claim", "p", "n", "--owner", "agent:2"]);
    assert!(said.contains("event-000002.json"), "{said}");
    assert_refused_naming(&place, "event-000002.json");
}

#[test]
fn the_number_of_an_event_that_was_acknowledged_never_comes_again() {
    let place = with(7);
    for name in ["event-000002.json", "event-000007.json"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    assert_refused_naming(&place, "event-000002.json");
    place.put(2, X);
    // Only the note of the newest event knows that the other one is missing.
    assert_refused_naming(&place, "event-000007.json");
    place.refused(65, &["show", "p", "7"]);
    fs::remove_file(place.path("event-000002.json")).unwrap();
    let verified = json(&place.call(&["verify", "p", "--json"]).stdout);
    assert_eq!(
        verified["events"], 1,
        "as many as there are before the first"
    );
    let (exit, found) = findings(&place, &["--repair", "--yes"]);
    let missing = vec!["event-000002.json", "event-000007.json"];
    assert_eq!((exit, files(&found)), (0, missing));
    assert_eq!(place.done(&["append", "p", X]), "8");
    let mut kinds = ["x"; 8];
    (kinds[1], kinds[6]) = ("event_missing", "event_missing");
    assert_eq!(place.kinds(), kinds);
    assert_eq!(findings(&place, &[]), (0, vec![]));
}

#[test]
fn a_snapshot_proves_what_was_acknowledged_where_the_note_of_the_newest_event_is_gone() {
    let mut place = with(1);
    place.stays_broken();
    for sequence in 2..=300 {
        place.put(sequence, X);
    }
    place.done(&["claims", "p"]);
    for sequence in 299..=300 {
        fs::remove_file(place.path(&format!("event-{sequence:06}.json"))).unwrap();
    }
    assert_refused_naming(&place, "event-000299.json");
    fs::remove_file(place.path(".newest")).unwrap();
    assert_refused_naming(&place, "event-000299.json");
}

#[test]
fn an_old_event_that_is_missing_from_a_small_ledger_is_told_by_the_next_append() {
    let mut place = with(7);
    place.stays_broken();
    fs::remove_file(place.path("event-000002.json")).unwrap();
    assert_refused_naming(&place, "event-000002.json");
}

#[test]
fn a_note_that_was_changed_or_is_of_another_boot_proves_nothing_or_as_much_as_before() {
    let place = with(3);
    let note = fs::read_to_string(place.path(".newest")).unwrap();
    for wrong in [
        note.replacen("3 ", "9 ", 1),
        note[..note.len() / 2].to_owned(),
        "9 1 x\n".to_owned(),
        String::new(),
    ] {
        fs::write(place.path(".newest"), &wrong).unwrap();
        let next = place.events() + 1;
        assert_eq!(place.done(&["append", "p", X]), next.to_string(), "{wrong}");
    }
    assert_eq!(findings(&place, &[]), (0, vec![]));
}

#[test]
fn where_an_event_is_missing_the_claims_before_it_are_ended_and_told_and_their_tokens_are_refused()
{
    let place = with(0);
    let claim = |node: &str, owner: &str| place.done(&["claim", "p", node, "--owner", owner]);
    assert_eq!(claim("1.1", "ana"), "1.1#1");
    assert_eq!(claim("1.2", "bo"), "1.2#2");
    place.done(&["append", "p", X]);
    assert_eq!(claim("1.3", "cy"), "1.3#4");
    fs::remove_file(place.path("event-000003.json")).unwrap();
    let repaired = place.call(&["verify", "p", "--repair", "--yes", "--json"]);
    assert_eq!(code(&repaired), 0, "{repaired:?}");
    let told = text(&repaired.stdout);
    for word in ["event-000003.json", "1.1#1", "ana", "1.2#2", "bo"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(
        !told.contains("1.3#4"),
        "it is known that cy has it: {told}"
    );
    for (token, owner) in [("1.1#1", "ana"), ("1.2#2", "bo")] {
        place.refused(77, &["append", "p", "--token", token, "--owner", owner, X]);
    }
    place.done(&["append", "p", "--token", "1.3#4", "--owner", "cy", X]);
    assert_eq!(claim("1.2", "ana"), "1.2#8");
}

#[test]
fn a_gap_so_large_that_a_stray_file_must_be_behind_it_is_not_filled() {
    let mut place = with(2);
    place.stays_broken();
    place.put(999_999, X);
    let (exit, found) = findings(&place, &["--repair", "--yes"]);
    assert_eq!((exit, files(&found)), (65, vec!["event-000003.json"]));
    assert!(found[0].1.contains("999995 more"), "{found:?}");
    assert_eq!(place.events(), 3);
}

#[test]
fn an_event_that_someone_removed_is_a_gap_that_is_told_and_goes_once_it_is_restored() {
    let place = with(1);
    for sequence in 2..=80 {
        place.put(sequence, X);
    }
    fs::remove_file(place.path("event-000005.json")).unwrap();
    fs::remove_file(place.path(".newest")).unwrap();
    assert_refused_naming(&place, "event-000005.json");
    assert_eq!(files(&findings(&place, &[]).1), ["event-000005.json"]);
    place.put(5, X);
    assert_eq!(place.done(&["append", "p", X]), "81");
}

#[test]
fn an_event_that_cannot_be_read_is_told_and_when_asked_kept_aside_and_marked_as_missing() {
    let place = with(2);
    let torn = ["", "{\"type\":\"x\"", "\0\0\0\0"];
    for (sequence, content) in (3..).zip(torn) {
        fs::write(place.path(&format!("event-00000{sequence}.json")), content).unwrap();
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
    let names = [
        "event-000003.json",
        "event-000004.json",
        "event-000005.json",
    ];
    for more in [&[][..], &["--repair"]] {
        let (exit, found) = findings(&place, more);
        assert_eq!((exit, files(&found)), (65, names.to_vec()));
        assert!(
            found[0].1.contains("empty") && found[2].1.contains("zeros"),
            "{found:?}"
        );
    }
    assert_eq!(findings(&place, &["--repair", "--yes"]).0, 0);
    assert_eq!(place.done(&["append", "p", X]), "6");
    assert_eq!(place.kinds()[2..5], ["event_missing"; 3]);
    assert_eq!(findings(&place, &[]), (0, vec![]));
    let names = place.names();
    let kept = names.iter().filter(|name| name.ends_with(".aside"));
    let kept = kept.map(|name| fs::read_to_string(place.path(name)).unwrap());
    assert_eq!(
        kept.collect::<std::collections::BTreeSet<_>>(),
        torn.map(str::to_owned).into()
    );
}

#[test]
fn foreign_files_and_wrong_names_are_told_and_repair_keeps_what_it_takes_out() {
    let place = with(1);
    for name in ["notes.txt", "event-2.json", "event-0000003.json"] {
        fs::write(place.path(name), "{}").unwrap();
    }
    // These files are leftovers of processes that died long ago, one of ours and one of a stranger.
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
fn an_event_that_never_got_a_number_is_removed_if_its_process_is_from_before_the_boot() {
    let place = with(1);
    let names = [
        ".event-new.0123456789abcdef.tmp",
        ".event-new.fedcba9876543210.tmp",
    ];
    for name in names {
        fs::write(place.path(name), X).unwrap();
    }
    let old = place.path(names[0]);
    let touched = Command::new("touch")
        .args(["-d", "2020-01-01"])
        .arg(&old)
        .status();
    assert!(touched.unwrap().success());
    place.done(&["append", "p", X]);
    assert!(!old.exists());
    assert!(place.path(names[1]).exists(), "its process may live");
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
    // The command may stop reading before all of it is written.
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
    // An edited event that changes a claim is found, too.
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

#[test]
fn a_gap_of_several_behind_the_newest_event_is_found_by_all() {
    let mut place = with(3);
    place.stays_broken();
    place.put(6, X);
    assert_refused_naming(&place, "event-000004.json");
}
