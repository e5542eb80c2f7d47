//! Summaries of turns: never two calls for one turn.

use serde_json::json;
use tenure_testkit::postgres::{Cluster, Database};

use crate::place::{ONE, Place};
use crate::world::{World, code, text, until};

/// Settings with a command that counts its calls.
fn settings(place: &Place, script: &str) -> String {
    let calls = place.path("calls");
    let script = format!("echo call >> '{}'; {script}", calls.display());
    format!("[agents]\nsummary = [\"sh\", \"-c\", {script:?}]\n")
}

fn calls(place: &Place) -> usize {
    std::fs::read_to_string(place.path("calls"))
        .unwrap_or_default()
        .lines()
        .count()
}

/// An agent whose turn is over, with the words it ended with.
fn answered(place: &Place) {
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    place.hook(
        ONE,
        "Stop",
        json!({"last_assistant_message": "a long answer"}),
    );
}

#[track_caller]
fn trust(place: &Place) {
    let output = place.world.call(["doctor", "--trust"]);
    assert_eq!(code(&output), 0, "{output:?}");
}

/// A repository on each store that keeps records; the database lives as long as its place.
fn places() -> [(Place, Option<Database>); 2] {
    let database = Cluster::shared().database();
    let server = Place::of(World::at(&database.url()));
    [(Place::new(), None), (server, Some(database))]
}

#[test]
fn a_turn_is_summarised_once_after_a_person_trusts_the_command() {
    for (place, _database) in places() {
        place.settings(&settings(&place, "tr a-z A-Z"));
        answered(&place);
        until("the stop is due", || place.watch()["stopped"] == 1);
        assert_eq!(calls(&place), 0, "nobody trusts it yet");
        let denied = place
            .world
            .tenure()
            .args(["doctor", "--trust"])
            .env("TENURE_OWNER", "agent:x")
            .output();
        assert_eq!(code(&denied.unwrap()), 77);
        trust(&place);
        assert_eq!(place.watch()["summaries"], 1);
        assert_eq!(place.watch()["summaries"], 0);
        assert_eq!(calls(&place), 1);
        // A file that changed is not the one that was trusted.
        place.settings(&settings(&place, "echo other"));
        let output = place.world.call(["agent", "watch", "--once"]);
        assert!(
            text(&output.stderr).contains("doctor --trust"),
            "{output:?}"
        );
    }
}

#[test]
fn of_two_watchers_at_once_one_calls_the_command() {
    for (place, _database) in places() {
        let gate = place.path("gate").display().to_string();
        let wait = format!("while [ ! -e '{gate}' ]; do sleep 0.05; done; cat");
        place.settings(&settings(&place, &wait));
        trust(&place);
        answered(&place);
        let mut first = place.world.tenure();
        let mut first = first
            .args(["agent", "watch", "--every", "100ms"])
            .spawn()
            .unwrap();
        until("it is called", || calls(&place) == 1);
        assert_eq!(place.watch()["summaries"], 0, "somebody is at it");
        std::fs::write(&gate, "").unwrap();
        until("it is summarised", || {
            place.watch();
            let open = place.world.json(["agent", "ls"]);
            open["agents"][0]["state"] == "idle" && calls(&place) == 1
        });
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(calls(&place), 1);
    }
}

#[test]
fn a_command_that_fails_is_given_up_after_three_times() {
    let place = Place::new();
    place.settings(&settings(&place, "exit 3"));
    trust(&place);
    answered(&place);
    until("it was called", || {
        place.watch();
        calls(&place) == 1
    });
    let told = place.watch()["warnings"].to_string();
    assert!(
        told.contains("turn 1/2") && told.contains("summary command failed"),
        "{told}"
    );
    for _ in 0..4 {
        place.watch();
    }
    assert_eq!(calls(&place), 3);
}

#[test]
fn a_command_that_hangs_is_ended() {
    let place = Place::new();
    let hangs = settings(&place, "exec sleep 600");
    place.settings(&format!("{hangs}summary_max = \"200ms\"\n"));
    trust(&place);
    answered(&place);
    let mut told = String::new();
    until("it was ended", || {
        told = place.watch()["warnings"].to_string();
        told.contains("took longer than 200ms")
    });
    assert_eq!(calls(&place), 1, "{told}");
}

#[test]
fn psql_that_has_the_row_keeps_the_command_from_being_called() {
    let database = Cluster::shared().database();
    let place = Place::of(World::at(&database.url()));
    place.settings(&settings(&place, "cat"));
    answered(&place);
    until("the stop is due", || place.watch()["stopped"] == 1);
    trust(&place);
    let mut psql = database.session();
    psql.run("BEGIN; SELECT 1 FROM tenure.records WHERE kind = 'agent_turn' FOR UPDATE");
    assert_eq!(place.watch()["summaries"], 0);
    assert_eq!(calls(&place), 0);
    psql.run("ROLLBACK");
    assert_eq!(place.watch()["summaries"], 1);
    assert_eq!(
        database.psql("SELECT summary FROM tenure.turns WHERE number = 2"),
        "a long answer"
    );
}

#[test]
fn what_a_command_leaves_in_the_background_is_not_waited_for() {
    let place = Place::new();
    place.settings(&settings(&place, "echo short; sleep 60 &"));
    trust(&place);
    answered(&place);
    until("it is summarised", || place.watch()["summaries"] == 1);
    assert_eq!(calls(&place), 1);
}

#[test]
fn of_a_command_that_prints_much_the_beginning_is_kept() {
    let place = Place::new();
    place.settings(&settings(&place, "exec seq 50000"));
    trust(&place);
    answered(&place);
    until("it is summarised", || place.watch()["summaries"] == 1);
    assert_eq!(calls(&place), 1, "it did not fail first");
}

#[test]
fn a_watcher_is_interrupted_while_a_summary_is_made_and_takes_the_command_along() {
    let place = Place::new();
    let pid = place.path("pid");
    let hangs = format!(
        "sleep 600 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait",
        pid.display()
    );
    place.settings(&settings(&place, &hangs));
    trust(&place);
    answered(&place);
    let mut watcher = place.world.tenure();
    let mut watcher = watcher
        .args(["agent", "watch", "--every", "100ms"])
        .spawn()
        .unwrap();
    crate::world::until_exists(&pid);
    crate::world::signal(watcher.id(), libc::SIGINT);
    until("it ends", || watcher.try_wait().unwrap().is_some());
    let pid: u32 = std::fs::read_to_string(&pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    until("the command is gone", || !crate::world::is_alive(pid));
}
