//! A campaign: hooks of several agents beside watchers, while both are killed, against a model.
//!
//! The model knows what it sent: every prompt has a text of its own. An event whose hook ended was
//! acknowledged, and counts once; an event whose hook was killed counts once or not at all. The
//! judge reads the records without our own code.

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
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::campaign::{Chance, Pace, Scene, begin, session, watcher};
use crate::place::Place;
use crate::world::{code, until};

const AGENTS: u64 = 4;

/// The events that one agent sent.
#[derive(Default)]
struct Sent {
    prompts: Vec<String>,
    /// The prompts whose hook was killed.
    unsure: Vec<String>,
    words: Vec<String>,
    events: usize,
    killed: usize,
}

/// An agent, and the means to send its events.
struct Player<'a> {
    place: &'a Place,
    pace: &'a Pace,
    agent: u64,
    sent: Sent,
}

impl Player<'_> {
    /// Sends an event, and returns true if it was acknowledged. With `kills`, its hook is killed
    /// unless it ends first.
    fn send(&mut self, event: &str, more: Value, kills: Option<&mut Chance>) -> bool {
        let mut body = self.place.body(&session(self.agent), event, more);
        // Without a transcript, everything that is known comes from the hooks.
        body["transcript_path"] = Value::Null;
        let mut command = self.place.world.tenure();
        let hook = self.place.begin(&body.to_string(), &mut command);
        let output = self.pace.end(hook, kills);
        self.sent.events += 1;
        if output.status.code().is_none() {
            self.sent.killed += 1;
            return false;
        }
        assert_eq!(code(&output), 0, "{output:?}");
        true
    }

    /// Sends events until the end of the campaign, and then an acknowledged end of the session.
    fn play(mut self, mut chance: Chance, end: Instant) -> Sent {
        let tool = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}});
        for number in 0.. {
            if Instant::now() >= end {
                break;
            }
            let mut kills = chance.fork();
            let kills = (chance.below(3) == 0).then_some(&mut kills);
            match chance.below(10) {
                0..=4 => {
                    let prompt = format!("prompt {} {number}", self.agent);
                    match self.send("UserPromptSubmit", json!({"prompt": prompt}), kills) {
                        true => self.sent.prompts.push(prompt),
                        false => self.sent.unsure.push(prompt),
                    }
                }
                5 | 6 => {
                    let words = format!("words {} {number}", self.agent);
                    self.send("Stop", json!({"last_assistant_message": words}), kills);
                    self.sent.words.push(words);
                }
                7 => drop(self.send("PreToolUse", tool.clone(), kills)),
                8 => drop(self.send("PostToolUse", tool.clone(), kills)),
                _ => drop(self.send("SessionStart", json!({}), kills)),
            }
        }
        assert!(self.send("SessionEnd", json!({}), None));
        self.sent
    }
}

/// Counts each text in the records of a kind.
fn counted(scene: &Scene, kind: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for record in scene.records(kind).values() {
        let text = record["text"].as_str().unwrap().to_owned();
        *counts.entry(text).or_default() += 1;
    }
    counts
}

fn campaign(name: &str, scene: &Scene) {
    let place = &scene.place;
    let (mut chance, end) = begin(name);
    let mut watchers = [watcher(place), watcher(place)];
    let mut kills = chance.fork();
    let (mut sent, pace) = (Vec::new(), Pace::default());
    thread::scope(|scope| {
        let playing: Vec<_> = (0..AGENTS)
            .map(|agent| {
                let (chance, pace) = (chance.fork(), &pace);
                let player = Player {
                    place,
                    pace,
                    agent,
                    sent: Sent::default(),
                };
                scope.spawn(move || player.play(chance, end))
            })
            .collect();
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(kills.below(1500)));
            watchers[kills.below(2) as usize] = watcher(place);
        }
        sent = playing
            .into_iter()
            .map(|agent| agent.join().unwrap())
            .collect();
    });
    drop(watchers);
    // The events in the spool are processed first.
    until("nothing is left to do", || {
        let cycle = place.watch();
        cycle["spooled"] == 0 && cycle["skipped"] == 0 && cycle["stopped"] == 0
    });
    for (agent, sent) in (0..).zip(&sent) {
        judge(scene, agent, sent);
    }
    let (events, killed) = sent.iter().fold((0, 0), |(events, killed), sent| {
        (events + sent.events, killed + sent.killed)
    });
    tenure_testkit::tell(format!("{name}: {events} hooks, {killed} killed"));
    assert!(killed > 0 && events > killed, "the campaign did nothing");
}

fn judge(scene: &Scene, agent: u64, sent: &Sent) {
    let (commands, turns) = (
        counted(scene, "agent_command"),
        counted(scene, "agent_turn"),
    );
    for counts in [&commands, &turns] {
        for prompt in &sent.prompts {
            assert_eq!(counts.get(prompt), Some(&1), "{prompt:?} was acknowledged");
        }
        for prompt in &sent.unsure {
            assert!(
                counts.get(prompt).copied().unwrap_or(0) <= 1,
                "{prompt:?} is there twice"
            );
        }
    }
    for words in &sent.words {
        assert!(
            turns.get(words).copied().unwrap_or(0) <= 1,
            "{words:?} are there twice"
        );
    }
    let own = |text: &&String| text.starts_with(&format!("prompt {agent} "));
    let known = commands.keys().filter(own).count();
    let agents = scene.records("agent");
    let record = &agents[&session(agent)];
    assert_eq!(
        (&record["state"], &record["commands"]),
        (&json!("done"), &json!(known)),
        "{record}"
    );
    let numbers: Vec<_> = agents
        .values()
        .map(|agent| agent["id"].as_u64().unwrap())
        .collect();
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
}

#[test]
fn on_sqlite_no_acknowledged_event_is_lost_and_none_counts_twice() {
    campaign("hooks on SQLite", &Scene::sqlite());
}

#[test]
fn on_postgresql_no_acknowledged_event_is_lost_and_none_counts_twice() {
    campaign("hooks on PostgreSQL", &Scene::postgres());
}
