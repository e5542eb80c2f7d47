//! A ledger of its own. When it is dropped, the replay of other programs must agree with ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::world::{World, code, json, text};

/// An event without any meaning.
pub const X: &str = "{\"type\":\"x\"}";

pub struct Place {
    pub world: World,
    /// True if other programs cannot read the ledger, on purpose.
    broken: bool,
}

impl Place {
    /// Makes a place with an empty ledger in `p`.
    pub fn new() -> Self {
        let place = Self {
            world: World::new(),
            broken: false,
        };
        assert_eq!(code(&place.call(&["init", "p"])), 0);
        place
    }

    /// Leaves the ledger broken: it is not judged when the test ends.
    pub fn stays_broken(&mut self) {
        self.broken = true;
    }

    /// Returns `tenure ledger ARGUMENTS`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.tenure();
        command.arg("ledger").args(arguments);
        command
    }

    pub fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    #[track_caller]
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
        text(&output.stdout).trim_end().to_owned()
    }

    /// Runs a command that must fail with this code, and returns its message.
    #[track_caller]
    pub fn refused(&self, expected: i32, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        text(&output.stderr)
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).arg("--json").output().unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
        json(&output.stdout)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path("p/ledger").join(name)
    }

    /// Writes an event as another program does.
    pub fn put(&self, sequence: u64, event: &str) {
        put(&self.world.path("p"), sequence, event);
    }

    /// Returns all names in the directory of the ledger.
    pub fn names(&self) -> Vec<String> {
        crate::site::names(&self.path(""))
    }

    /// Counts the events.
    pub fn events(&self) -> usize {
        count(&self.world.path("p"))
    }

    /// Returns the types of all events.
    pub fn kinds(&self) -> Vec<String> {
        let log = self.json(&["log", "p", "--limit", "100000"]);
        let kind = |event: &Value| event["event"]["type"].as_str().unwrap_or("").to_owned();
        log["events"].as_array().unwrap().iter().map(kind).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.broken {
            judge(&[&self.world.path("p")]);
        }
    }
}

/// Counts the events of a ledger.
pub fn count(directory: &Path) -> usize {
    let names = crate::site::names(&directory.join("ledger"));
    names
        .iter()
        .filter(|name| name.starts_with("event-"))
        .count()
}

/// Writes an event as another program does.
pub fn put(directory: &Path, sequence: u64, event: &str) {
    let name = format!("ledger/event-{sequence:06}.json");
    fs::write(directory.join(name), format!("{event}\n")).unwrap();
}

/// Returns a claim event with its times.
pub fn claim_event(kind: &str, node: &str, owner: &str, at: &str, until: Option<&str>) -> String {
    let mut event = json!({"type": kind, "timestamp": at, "node_id": node, "owner": owner});
    if let Some(until) = until {
        event["expires_at"] = until.into();
    }
    event.to_string()
}

/// Replays ledgers by the pseudocode of the protocol, which must not fail, and compares.
#[track_caller]
pub fn judge(directories: &[&Path]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledger/replay.py");
    let output = Command::new("python3")
        .arg(script)
        .args(directories)
        .output()
        .unwrap();
    assert_eq!(
        code(&output),
        0,
        "the replay fails: {}",
        text(&output.stderr)
    );
    let answers = text(&output.stdout);
    assert_eq!(answers.lines().count(), directories.len());
    for (directory, answer) in directories.iter().zip(answers.lines()) {
        let theirs: Value = serde_json::from_str(answer).unwrap();
        let ledger = tenure_ledger::Ledger::open(directory, crate::world::DEADLINE).unwrap();
        let ours = ledger.claims().unwrap();
        let seconds = |time: tenure::Timestamp| format!("{}Z", &time.to_string()[..19]);
        let pair = |owner: &str, until: &str| (owner.to_owned(), until[..19].to_owned());
        let ours: BTreeMap<_, _> = ours
            .iter()
            .map(|claim| {
                (
                    claim.node.clone(),
                    pair(&claim.owner, &seconds(claim.expires_at)),
                )
            })
            .collect();
        let theirs: BTreeMap<_, _> = theirs["locks"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(node, lock)| {
                let field = |name: &str| lock[name].as_str().unwrap();
                (node.clone(), pair(field("owner"), field("expires_at")))
            })
            .collect();
        assert_eq!(ours, theirs, "{}", directory.display());
    }
}
