//! The board after a loss of power, as a command of the next boot finds it. `tenure_board::crashes`
//! tries every state of every crash on the simulated disk; here the command meets some of them on a
//! real one.

use std::fs;

use crate::place::Place;

/// Makes all pending changes look like those of an earlier boot.
fn reboot(place: &Place) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for entry in fs::read_dir(place.path(".pending")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(boot.trim()));
        fs::write(&path, text.replace(boot.trim(), "an-earlier-boot")).unwrap();
    }
}

#[test]
fn what_the_power_tore_is_made_whole_by_the_next_command_of_another_boot() {
    let place = Place::new();
    place.add(&["a", "b"]);
    place.done(&["note", "a", "important"]);
    let log = fs::read(place.path("events.jsonl")).unwrap();
    reboot(&place);
    // The newest part of each file is torn, in another way each.
    let half = fs::read(place.path("issues/a.json")).unwrap();
    fs::write(place.path("issues/a.json"), &half[..half.len() / 2]).unwrap();
    fs::write(place.path("issues/b.json"), "").unwrap();
    let index = fs::read(place.path("index.json")).unwrap();
    fs::write(place.path("index.json"), vec![0; index.len()]).unwrap();
    let mut torn = log.clone();
    let end = torn.len();
    torn[end - 40..].fill(0);
    fs::write(place.path("events.jsonl"), torn).unwrap();
    assert_eq!(place.issue("a")["notes"][0]["text"], "important");
    assert_eq!(place.issue("b")["title"], "b");
    assert_eq!(fs::read(place.path("events.jsonl")).unwrap(), log);
    assert_eq!(crate::site::names(&place.path(".pending")), ["durable"]);
}

#[test]
fn what_a_person_edited_before_the_first_command_of_another_boot_stays() {
    let place = Place::new();
    place.add(&["a", "b"]);
    reboot(&place);
    let text = fs::read_to_string(place.path("issues/a.json")).unwrap();
    let edited = text.replace("\"title\": \"a\"", "\"title\": \"by hand\"");
    fs::write(place.path("issues/a.json"), &edited).unwrap();
    assert_eq!(place.issue("a")["title"], "by hand");
    assert_eq!(
        fs::read_to_string(place.path("issues/a.json")).unwrap(),
        edited
    );
}

#[test]
fn a_half_line_at_the_end_of_the_log_is_cut_off_before_the_next() {
    let place = Place::new();
    place.add(&["a"]);
    let mut log = fs::read(place.path("events.jsonl")).unwrap();
    log.extend(b"{\"type\":\"issue_no");
    fs::write(place.path("events.jsonl"), log).unwrap();
    assert_eq!(
        place.json(&["events"])["events"].as_array().unwrap().len(),
        1
    );
    place.done(&["note", "a", "x"]);
    let events = place.json(&["events"]);
    let lines: Vec<u64> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [1, 2]);
}

#[test]
fn a_half_line_is_not_counted_so_that_no_event_is_there_twice() {
    let place = Place::new();
    place.add(&["a"]);
    // The notes go on until a checkpoint leaves nothing pending, so that the next change finds only
    // the log.
    let board = place.board();
    let is_empty = || crate::site::names(&place.path(".pending")) == ["durable"];
    let mut notes = (0..100).map(|_| board.note(&crate::place::id("a"), "x").unwrap());
    assert!(notes.any(|_| is_empty()));
    let mut log = fs::read(place.path("events.jsonl")).unwrap();
    log.extend(b"{\"type\":\"issue_noted\",\"id\":\"0123456789\",\"issue");
    fs::write(place.path("events.jsonl"), log).unwrap();
    place.done(&["note", "a", "one"]);
    // The missing mark plays a writer that was killed before it said that it was done.
    for name in crate::site::names(&place.path(".pending")) {
        if name.ends_with(".done") {
            fs::remove_file(place.path(".pending").join(name)).unwrap();
        }
    }
    // The board is judged when the test ends: no event is there twice.
    place.done(&["ls"]);
}
