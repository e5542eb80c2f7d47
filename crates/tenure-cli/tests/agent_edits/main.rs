//! A campaign: agents that race for files, while their hooks are killed.
//!
//! The model knows one thing: an agent whose edit was allowed has the file until it begins to end
//! its turn or its session. If another agent's edit of the file is allowed meanwhile, that is the
//! failure looked for, whatever the hook says of it; so is an edit that goes on unguarded, as the
//! store is there all the time. A hook that was killed allows nothing.

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
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::campaign::{Chance, Pace, Scene, begin, session};
use crate::place::Place;
use crate::world::{code, text};

const AGENTS: u64 = 4;
const FILES: u64 = 3;

/// The holders of the files, and counts of what happened.
#[derive(Default)]
struct Model {
    /// The agent that has each file: its edit was allowed, and it has not begun to give it back.
    has: HashMap<u64, u64>,
    granted: usize,
    denied: usize,
    killed: usize,
    wrong: Vec<String>,
}

/// The result of a hook.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The tool goes on, with this message.
    GoesOn(String),
    Denied,
    Killed,
}

/// State that all agents share.
struct Race<'a> {
    place: &'a Place,
    pace: Pace,
    model: Mutex<Model>,
}

impl Race<'_> {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }
}

/// Sends an event. With `kills`, its hook is killed unless it ends first.
fn send(race: &Race, agent: u64, event: &str, more: Value, kills: Option<&mut Chance>) -> Outcome {
    let mut body = race.place.body(&session(agent), event, more);
    body["transcript_path"] = Value::Null;
    let hook = race
        .place
        .begin(&body.to_string(), &mut race.place.world.tenure());
    let output = race.pace.end(hook, kills);
    if output.status.code().is_none() {
        return Outcome::Killed;
    }
    assert_eq!(code(&output), 0, "{output:?}");
    match output.stdout.is_empty() {
        true => Outcome::GoesOn(text(&output.stderr)),
        false => Outcome::Denied,
    }
}

fn edit(race: &Race, agent: u64, file: u64, kills: Option<&mut Chance>) -> Outcome {
    let path = race.place.path(&format!("file-{file}"));
    let input = json!({"tool_name": "Edit", "tool_input": {"file_path": path}});
    send(race, agent, "PreToolUse", input, kills)
}

/// Plays one agent until the end of the campaign.
fn play(race: &Race, agent: u64, mut chance: Chance, end: Instant) {
    let mut again = None;
    while Instant::now() < end {
        let mut kills = chance.fork();
        if again.is_none() && chance.below(4) == 0 {
            race.model().has.retain(|_, has| *has != agent);
            let event = ["Stop", "SessionEnd"][usize::from(chance.below(2) == 0)];
            let is_killed = chance.below(5) == 0;
            send(
                race,
                agent,
                event,
                json!({}),
                is_killed.then_some(&mut kills),
            );
        } else {
            // An agent whose hook was killed mostly tries again.
            let file = again.take().unwrap_or(chance.below(FILES));
            let is_killed = chance.below(3) == 0;
            let kills = is_killed.then_some(&mut kills);
            // An agent makes up to four calls at once.
            let others = match chance.below(3) {
                0 => 1 + chance.below(3),
                _ => 0,
            };
            let outcomes = thread::scope(|scope| {
                let ask = || edit(race, agent, file, None);
                let others: Vec<_> = (0..others).map(|_| scope.spawn(ask)).collect();
                let mut outcomes = vec![edit(race, agent, file, kills)];
                outcomes.extend(others.into_iter().map(|other| other.join().unwrap()));
                outcomes
            });
            again = (outcomes == [Outcome::Killed] && chance.below(4) > 0).then_some(file);
            for outcome in &outcomes {
                race.model().note(agent, file, outcome);
            }
        }
        thread::sleep(Duration::from_millis(chance.below(30)));
    }
}

impl Model {
    fn note(&mut self, agent: u64, file: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Killed => self.killed += 1,
            Outcome::Denied => self.denied += 1,
            Outcome::GoesOn(told) => {
                self.granted += 1;
                // The store is there and nothing is late, so there is nothing to tell.
                if !told.is_empty() {
                    self.wrong.push(format!(
                        "agent {agent} edits file {file} and is told: {told}"
                    ));
                }
                let other = self.has.insert(file, agent);
                if let Some(other) = other.filter(|other| *other != agent) {
                    self.wrong.push(format!(
                        "agents {other} and {agent} edit file {file}; the second was told {told:?}"
                    ));
                }
            }
        }
    }
}

fn campaign(name: &str, scene: &Scene) {
    let place = &scene.place;
    place.settings("[guard]\nedits = true\nedits_until = \"turn\"\n");
    let (mut chance, end) = begin(name);
    let race = Race {
        place,
        pace: Pace::default(),
        model: Mutex::default(),
    };
    thread::scope(|scope| {
        for agent in 0..AGENTS {
            let (chance, race) = (chance.fork(), &race);
            scope.spawn(move || play(race, agent, chance, end));
        }
    });
    {
        let model = race.model();
        let (granted, denied, killed) = (model.granted, model.denied, model.killed);
        tenure_testkit::tell(format!(
            "{name}: {granted} edits, {denied} denied, {killed} hooks killed"
        ));
        assert_eq!(model.wrong, Vec::<String>::new());
        assert!(granted > 0 && denied > 0 && killed > 0, "nothing was done");
    }
    // An agent gives all files back at the end of its session, even those of killed hooks.
    let goes_on = || Outcome::GoesOn(String::new());
    for agent in 0..AGENTS {
        let ended = send(&race, agent, "SessionEnd", json!({}), None);
        assert_eq!(ended, goes_on());
    }
    for file in 0..FILES {
        let newcomer = edit(&race, AGENTS, file, None);
        assert_eq!(newcomer, goes_on(), "file {file} is free");
    }
}

#[test]
fn on_sqlite_no_two_agents_edit_a_file_at_once() {
    campaign("edits on SQLite", &Scene::sqlite());
}

#[test]
fn on_postgresql_no_two_agents_edit_a_file_at_once() {
    campaign("edits on PostgreSQL", &Scene::postgres());
}
