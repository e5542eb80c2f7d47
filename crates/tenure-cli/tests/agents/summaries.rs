//! Summaries of turns: never two calls for a turn at once, and three calls at most.

use std::process::Child;

use serde_json::json;
use tenure_testkit::postgres::{Cluster, Database, Proxy};

use crate::place::{ONE, OTHER, Place};
use crate::world::{World, code, is_alive, signal, text, until, until_exists};

/// Returns settings with a command that counts its calls.
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

/// Makes an agent whose turn is over, with its last words.
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

/// Makes a repository on each store that keeps records; the database lives as long as its place.
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
        // A command that has changed is not the one that was trusted.
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
    until_exists(&pid);
    signal(watcher.id(), libc::SIGINT);
    until("it ends", || watcher.try_wait().unwrap().is_some());
    let pid: u32 = std::fs::read_to_string(&pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    until("the command is gone", || !is_alive(pid));
}

/// Returns a script that notes its process id and those of earlier calls that are alive, and then
/// waits for a gate.
fn noting(place: &Place) -> String {
    let script = "for old in $(cat pids 2>/dev/null); do \
        case $(sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/$old/status 2>/dev/null) in \
        ''|Z|X) ;; *) echo $old >> overlaps;; esac; done; \
        echo $$ >> pids; while [ ! -e gate ]; do sleep 0.02; done; cat";
    format!("cd '{}'; {script}", place.path("").display())
}

/// Returns the process ids of all calls.
fn pids(place: &Place) -> Vec<u32> {
    let pids = std::fs::read_to_string(place.path("pids")).unwrap_or_default();
    pids.lines().map(|line| line.parse().unwrap()).collect()
}

/// A watcher that is killed when it is dropped. Its output is in the file `did`.
struct Watcher(Child);

fn watcher(place: &Place) -> Watcher {
    let mut watcher = place.world.tenure();
    watcher.args(["agent", "watch", "--every", "50ms"]);
    let did = std::fs::File::create(place.path("did")).unwrap();
    let told = std::fs::File::create(place.path("told")).unwrap();
    Watcher(watcher.stdout(did).stderr(told).spawn().unwrap())
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells whether the agent's turn is left without a summary for good.
fn is_given_up(place: &Place) -> bool {
    place.watch();
    place.watch()["summaries"] == 0
}

#[test]
fn a_call_ends_with_its_watcher_and_of_those_that_were_killed_there_are_three_at_most() {
    for (place, _database) in places() {
        let script = noting(&place);
        place.settings(&format!(
            "{}summary_max = \"1s\"\n",
            settings(&place, &script)
        ));
        trust(&place);
        answered(&place);
        for made in 1..=3 {
            let watcher = watcher(&place);
            until("it is called", || pids(&place).len() >= made);
            drop(watcher);
            let last = *pids(&place).last().unwrap();
            until("the command ended with its watcher", || !is_alive(last));
        }
        std::fs::write(place.path("gate"), "").unwrap();
        until("the last is over", || is_given_up(&place));
        assert_eq!(pids(&place).len(), 3);
        assert!(!place.path("overlaps").exists(), "two at once");
    }
}

#[test]
fn a_summary_whose_connection_was_lost_is_kept_and_its_call_was_counted() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let place = Place::of(World::at(&proxy.url_through(&database)));
    place.settings(&settings(&place, &noting(&place)));
    trust(&place);
    answered(&place);
    let mut watcher = watcher(&place);
    until("it is called", || pids(&place).len() == 1);
    proxy.refuse();
    proxy.cut();
    std::fs::write(place.path("gate"), "").unwrap();
    until("it is done, and the server is away", || {
        let told = std::fs::read_to_string(place.path("told")).unwrap();
        assert!(watcher.0.try_wait().unwrap().is_none(), "{told}");
        !is_alive(pids(&place)[0]) && told.contains("trying again")
    });
    proxy.admit();
    let summary = "SELECT summary FROM tenure.turns WHERE number = 2";
    until("it is kept", || database.psql(summary) == "a long answer");
    drop(watcher);
    assert_eq!(pids(&place).len(), 1);
}

#[test]
fn a_slow_summary_keeps_the_watcher_from_nothing_else() {
    for (place, _database) in places() {
        place.settings(&settings(&place, &noting(&place)));
        trust(&place);
        answered(&place);
        let watcher = watcher(&place);
        until("it is called", || pids(&place).len() == 1);
        place.hook(OTHER, "UserPromptSubmit", json!({"prompt": "go"}));
        place.hook(OTHER, "Stop", json!({"last_assistant_message": "done"}));
        until("the other is stopped meanwhile", || {
            let did = std::fs::read_to_string(place.path("did")).unwrap();
            did.matches("1 stopped").count() == 2
        });
        assert!(is_alive(pids(&place)[0]));
        drop(watcher);
    }
}

#[test]
fn what_a_killed_call_has_left_behind_keeps_the_next_one_out_on_this_machine() {
    let place = Place::new();
    let script = "(while [ ! -e gate ]; do sleep 0.02; done) & echo $$ >> pids; wait; cat";
    let script = format!("cd '{}'; {script}", place.path("").display());
    place.settings(&settings(&place, &script));
    trust(&place);
    answered(&place);
    let first = watcher(&place);
    until("it is called", || pids(&place).len() == 1);
    drop(first);
    assert_eq!(place.watch()["summaries"], 0, "something of it is left");
    assert_eq!(pids(&place).len(), 1);
    std::fs::write(place.path("gate"), "").unwrap();
    until("it is called again", || place.watch()["summaries"] == 1);
    assert_eq!(pids(&place).len(), 2);
}

#[test]
fn a_watcher_that_is_stopped_for_longer_than_its_call_may_take_keeps_others_out() {
    let database = Cluster::shared().database();
    let place = Place::of(World::at(&database.url()));
    let noting = settings(&place, &noting(&place));
    place.settings(&format!("{noting}summary_max = \"1s\"\n"));
    trust(&place);
    answered(&place);
    let stopped = watcher(&place);
    until("it is called", || pids(&place).len() == 1);
    signal(stopped.0.id(), libc::SIGSTOP);
    let over = "SELECT pg_catalog.clock_timestamp() > (body::json->'running'->>'until')::timestamptz \
        FROM tenure.records WHERE kind = 'agent_summary'";
    until("its time is over", || database.psql(over) == "t");
    assert_eq!(place.watch()["summaries"], 0);
    assert_eq!(pids(&place).len(), 1, "its command is there");
    signal(stopped.0.id(), libc::SIGCONT);
    until("it is called again", || pids(&place).len() == 2);
    assert!(!place.path("overlaps").exists(), "two at once");
}
