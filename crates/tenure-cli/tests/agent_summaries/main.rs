//! A campaign: summaries, while their watchers are killed, stopped and cut off.
//!
//! The command itself checks that no other call for its turn is alive, and counts the calls. The
//! judge reads the files of the command and the records of turns: never two calls at once, three at
//! most, and in the end every turn has its summary, or had its calls.

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

#[path = "../agents/campaign.rs"]
#[allow(dead_code, reason = "shared with the other campaigns")]
mod campaign;
#[path = "../agents/place.rs"]
#[allow(dead_code, reason = "shared with the other tests of agents")]
mod place;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_testkit::postgres::{Cluster, Proxy};

use crate::campaign::{Scene, begin, session, watcher};
use crate::place::Place;
use crate::world::{World, holds_within, signal};

const AGENTS: u64 = 6;
const WATCHERS: usize = 3;
const CALLS_MAX: usize = 3;

/// Notes each overlap with a call that is alive, takes some time, and fails every sixth time.
const SCRIPT: &str = r#"turn=$(cat); mkdir -p calls; f=calls/$turn
for old in $(cat "$f" 2>/dev/null); do
    case $(sed -n 's/^State:.\(.\).*/\1/p' /proc/$old/status 2>/dev/null) in
    ''|Z|X) ;; *) echo "$turn $old $$" >>overlaps ;; esac
done
echo $$ >>"$f"
n=$(( ($$ * 7919) % 10 ))
sleep 0.$n
[ $(( $$ % 6 )) = 0 ] && exit 3
echo "summary of $turn""#;

fn calls(place: &Place) -> HashMap<String, usize> {
    let files = fs::read_dir(place.path("calls"))
        .into_iter()
        .flatten()
        .flatten();
    let count = |file: fs::DirEntry| {
        let turn = file.file_name().into_string().unwrap();
        (
            turn,
            fs::read_to_string(file.path()).unwrap().lines().count(),
        )
    };
    files.map(count).collect()
}

/// Makes a turn that is to be summarised.
fn answer(place: &Place, agent: u64, number: u64) {
    let session = session(agent);
    place.hook(
        &session,
        "UserPromptSubmit",
        json!({"prompt": "go", "transcript_path": null}),
    );
    let words = format!("turn-{agent}-{number}");
    let words = json!({"last_assistant_message": words, "transcript_path": null});
    place.hook(&session, "Stop", words);
    // The end of the session makes the stop take effect at once, and so makes the turn.
    place.hook(&session, "SessionEnd", json!({"transcript_path": null}));
}

fn campaign(name: &str, scene: &Scene, proxy: Option<&Proxy>) {
    let place = &scene.place;
    let (mut chance, end) = begin(name);
    let script = format!("cd '{}'; {SCRIPT}", place.path("").display());
    place.settings(&format!(
        "[agents]\nsummary = [\"sh\", \"-c\", {script:?}]\nsummary_max = \"2s\"\n"
    ));
    assert!(place.world.call(["doctor", "--trust"]).status.success());
    answer(place, 0, 0);
    let mut watchers: Vec<_> = (0..WATCHERS).map(|_| watcher(place)).collect();
    let (mut answers, mut kills, mut cuts) = (1, 0, 0);
    while Instant::now() < end {
        for watcher in &mut watchers {
            let has_ended = watcher.0.try_wait().unwrap().is_some();
            let told = || fs::read_to_string(place.path("watched")).unwrap();
            assert!(!has_ended, "a watcher ended by itself: {}", told());
        }
        match chance.below(10) {
            0..=3 => {
                let (agent, number) = (chance.below(AGENTS), answers);
                answer(place, agent, number);
                answers += 1;
            }
            4..=6 => {
                let index = chance.below(WATCHERS as u64) as usize;
                watchers[index] = watcher(place);
                kills += 1;
            }
            7 => {
                // A stop may last longer than a call takes, but not as long as a call may take.
                let pid = watchers[chance.below(WATCHERS as u64) as usize].0.id();
                signal(pid, libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(chance.below(1500)));
                signal(pid, libc::SIGCONT);
            }
            _ => {
                proxy.inspect(|proxy| proxy.cut());
                cuts += u64::from(proxy.is_some());
            }
        }
        std::thread::sleep(Duration::from_millis(chance.below(300)));
    }
    watchers.clear();
    let is_done = || {
        place.watch();
        let calls = calls(place);
        let turns = scene.records("agent_turn");
        let mut answers = turns.iter().filter(|(_, turn)| turn["by"] == "agent");
        answers.all(|(id, turn)| {
            let text = turn["text"].as_str().unwrap();
            !turn["summary"].is_null()
                || calls.get(text) == Some(&CALLS_MAX)
                || is_given_up(scene, id)
        })
    };
    // On PostgreSQL a call of a killed watcher counts for seven seconds, and a turn may have three
    // of them.
    let is_in_time = holds_within(Duration::from_secs(300), is_done);
    assert!(
        is_in_time,
        "a turn has neither its summary nor had its calls"
    );
    judge(scene, answers);
    let made: usize = calls(place).values().sum();
    tenure_testkit::tell(format!(
        "{name}: {answers} turns, {made} calls, {kills} watchers killed, {cuts} times cut off"
    ));
    assert!(made > 0 && kills > 0, "the campaign did nothing");
}

/// Tells whether a turn has used up its calls. One of them may never have been made, as its watcher
/// was killed before it.
fn is_given_up(scene: &Scene, turn: &str) -> bool {
    let calls = scene.records("agent_summary");
    calls
        .get(turn)
        .is_some_and(|calls| calls["count"] == CALLS_MAX)
}

fn judge(scene: &Scene, answers: u64) {
    let overlaps = fs::read_to_string(scene.place.path("overlaps")).unwrap_or_default();
    assert_eq!(overlaps, "", "two calls for one turn at once");
    for (turn, calls) in calls(&scene.place) {
        assert!(calls <= CALLS_MAX, "{turn} was called {calls} times");
    }
    let turns = scene.records("agent_turn");
    let turns: Vec<_> = turns
        .values()
        .filter(|turn| turn["by"] == "agent")
        .collect();
    assert_eq!(turns.len() as u64, answers, "every answer is a turn");
    for turn in turns {
        let text = turn["text"].as_str().unwrap();
        if let Some(summary) = turn["summary"].as_str() {
            assert_eq!(summary, format!("summary of {text}"));
        }
    }
}

#[test]
fn on_sqlite_no_two_calls_for_a_turn_go_on_at_once_and_three_are_made_at_most() {
    campaign("summaries on SQLite", &Scene::sqlite(), None);
}

#[test]
fn on_postgresql_no_two_calls_for_a_turn_go_on_at_once_and_three_are_made_at_most() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let scene = Scene {
        place: Place::of(World::at(&proxy.url_through(&database))),
        database: Some(database),
    };
    campaign("summaries on PostgreSQL", &scene, Some(&proxy));
}
