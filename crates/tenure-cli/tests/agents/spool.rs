//! Events that waited: their effects, and the time that a hook spends on them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::hooks::{Held, spool_file};
use crate::place::{ONE, OTHER, Place};
use crate::world::{text, until};

const UNTIL_TURN: &str = "[guard]\nedits = true\nedits_until = \"turn\"\n";

/// Sets the time that hooks wait.
fn hook_wait(place: &Place, settings: &str, wait: &str) {
    let settings = format!("{settings}[agents]\nhook_wait = \"{wait}\"\n");
    std::fs::write(place.path("tenure.toml"), settings).unwrap();
}

/// Sends an event that cannot be processed now, and is kept.
#[track_caller]
fn send_late(place: &Place, name: &str, more: Value) {
    let output = place.send(&place.body(ONE, name, more).to_string());
    let told = text(&output.stderr);
    assert!(told.contains("the event waits"), "{told}");
}

fn edit(file: &str) -> Value {
    json!({"tool_name": "Edit", "tool_input": {"file_path": file}})
}

#[test]
fn a_stop_that_waited_releases_the_files_of_its_turn_and_none_of_the_next() {
    for is_watcher in [false, true] {
        let place = Place::with(UNTIL_TURN);
        assert_eq!(place.edit(ONE, "a.rs"), "");
        let held = Held::agent(&place);
        hook_wait(&place, UNTIL_TURN, "500ms");
        send_late(&place, "Stop", json!({}));
        send_late(&place, "UserPromptSubmit", json!({"prompt": "next"}));
        // The guard of the event takes the file, although the event itself has to wait.
        send_late(&place, "PreToolUse", edit("b.rs"));
        held.end();
        place.settings(UNTIL_TURN);
        assert_ne!(
            place.edit(OTHER, "a.rs"),
            "",
            "nobody has processed the stop"
        );
        match is_watcher {
            true => assert_eq!(place.watch()["spooled"], 1),
            false => drop(place.hook(ONE, "Notification", json!({}))),
        }
        assert_eq!(place.edit(OTHER, "a.rs"), "");
        assert_ne!(place.edit(OTHER, "b.rs"), "", "it belongs to the next turn");
    }
}

/// Fills the spool of the agent with prompts, and returns its file.
fn with_waiting(place: &Place, number: usize) -> PathBuf {
    place.hook(ONE, "SessionStart", json!({}));
    let held = Held::agent(place);
    hook_wait(place, "", "300ms");
    send_late(place, "UserPromptSubmit", json!({"prompt": "prompt 0"}));
    held.end();
    let file = spool_file(place);
    let line = std::fs::read_to_string(&file).unwrap();
    let first: Value = serde_json::from_str(line.trim()).unwrap();
    let mut all = line;
    for number in 1..number {
        let mut event = first.clone();
        let id = first["id"].as_str().unwrap();
        event["id"] = json!(format!("{}{number:012}", &id[..id.len() - 12]));
        event["fields"]["prompt"] = json!(format!("prompt {number}"));
        all.push_str(&format!("\n{event}\n"));
    }
    std::fs::write(&file, all).unwrap();
    file
}

#[test]
fn a_hook_that_finds_many_events_waiting_leaves_to_the_next_what_it_has_no_time_for() {
    const WAITING: usize = 1500;
    let place = Place::new();
    let file = with_waiting(&place, WAITING);
    let began = Instant::now();
    send_late(&place, "UserPromptSubmit", json!({"prompt": "last"}));
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let first = place.agent(ONE)["commands"].as_u64().unwrap();
    assert!(
        (1..WAITING as u64).contains(&first),
        "{first} were processed"
    );
    // The next hooks go on where this one stopped, in the order of the events.
    let mut done = first;
    until("all are processed", || {
        place.send(&place.body(ONE, "Notification", json!({})).to_string());
        let agent = place.agent(ONE);
        let commands = agent["commands"].as_u64().unwrap();
        assert!(commands >= done);
        done = commands;
        let is_empty = std::fs::metadata(&file).unwrap().len() == 0;
        is_empty && agent["state"] == "waiting"
    });
    let agent = place.agent(ONE);
    let prompts = WAITING as u64 + 1;
    assert_eq!(
        (agent["commands"].as_u64(), &agent["task"]),
        (Some(prompts), &json!("last"))
    );
    assert_eq!(agent["turns"].as_u64(), Some(prompts));
}
