//! SIGKILL at every system call of each operation.
//!
//! A killed process leaves its writes behind, whether they were synced or not, so these boards lie
//! where syncing costs nothing. `./test` kills each operation at every fifth call, `./test --all`
//! at all of them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenure_board::{Board, GateBy};

use crate::place::{Place, id, judge, open, open_for, titled};
use crate::site::names;
use crate::strace::{kill_at, points};

/// An operation, the state before it, and the signs on the board that it happened.
struct Victim {
    name: &'static str,
    before: fn(&Board),
    arguments: &'static [&'static str],
    /// The type of the event that the operation writes.
    event: &'static str,
    /// Tells whether the effect is there.
    happened: fn(&Value) -> bool,
}

const VICTIMS: [Victim; 13] = [
    Victim {
        name: "add",
        before: |_| (),
        arguments: &["add", "new", "--id", "c", "--depends", "a"],
        event: "issue_created",
        happened: |issues| !issues["c"].is_null(),
    },
    Victim {
        name: "set",
        before: |_| (),
        arguments: &["set", "a", "priority=9"],
        event: "issue_updated",
        happened: |issues| issues["a"]["priority"] == 9,
    },
    Victim {
        name: "note",
        before: |_| (),
        arguments: &["note", "a", "x"],
        event: "issue_noted",
        happened: |issues| issues["a"]["notes"][0]["text"] == "x",
    },
    Victim {
        name: "claim",
        before: |_| (),
        arguments: &["claim", "a", "--owner", "bo"],
        event: "issue_claimed",
        happened: |issues| issues["a"]["claim"]["owner"] == "bo",
    },
    Victim {
        name: "next",
        before: |_| (),
        arguments: &["next", "--claim", "--owner", "bo"],
        event: "issue_claimed",
        happened: |issues| issues["a"]["claim"]["owner"] == "bo",
    },
    Victim {
        name: "renew",
        before: |_| (),
        arguments: &["renew", "a", "--owner", "pid", "--ttl", "20h"],
        event: "claim_renewed",
        // A renewal changes only the time, so the event alone tells whether it happened.
        happened: |issues| !issues["a"]["claim"].is_null(),
    },
    Victim {
        name: "release",
        before: |_| (),
        arguments: &["release", "a", "--owner", "pid"],
        event: "claim_released",
        happened: |issues| issues["a"]["claim"].is_null(),
    },
    Victim {
        name: "done",
        before: |_| (),
        arguments: &["done", "a"],
        event: "issue_done",
        happened: |issues| issues["a"]["state"] == "done",
    },
    Victim {
        name: "delete",
        before: |_| (),
        arguments: &["delete", "b"],
        event: "issue_deleted",
        happened: |issues| issues["b"].is_null(),
    },
    Victim {
        name: "depend",
        before: |_| (),
        arguments: &["depend", "b", "--on", "a"],
        event: "dependency_added",
        happened: |issues| issues["b"]["depends_on"][0] == "a",
    },
    Victim {
        name: "undepend",
        before: |_| (),
        arguments: &["depend", "d", "--on", "a", "--remove"],
        event: "dependency_removed",
        happened: |issues| issues["d"]["depends_on"][0].is_null(),
    },
    Victim {
        name: "reopen",
        before: |_| (),
        arguments: &["set", "d", "state=open", "title=again"],
        event: "issue_reopened",
        happened: |issues| issues["d"]["state"] == "open" && issues["d"]["title"] == "again",
    },
    Victim {
        name: "gate",
        before: |board| board.define_gate("review", GateBy::People).unwrap(),
        arguments: &["gate", "pass", "g", "review"],
        event: "gate_passed",
        happened: |issues| issues["g"]["gates"]["review"] == "passed",
    },
];

impl Victim {
    fn fresh(&self, root: &Path) {
        Board::init(root).unwrap();
        let board = open(root);
        (self.before)(&board);
        for issue in ["a", "b"] {
            board.create(titled(issue)).unwrap();
        }
        if self.name == "gate" {
            let mut new = titled("g");
            new.gates = vec!["review".into()];
            board.create(new).unwrap();
        }
        if self.name == "undepend" {
            let mut new = titled("d");
            new.depends_on = vec![id("a")];
            board.create(new).unwrap();
        }
        if self.name == "reopen" {
            board.create(titled("d")).unwrap();
            board.done(&id("d"), None).unwrap();
        }
        if matches!(self.name, "renew" | "release") {
            let asker = tenure::SessionOptions::new(tenure::Owner::parse("pid").unwrap()).asker();
            let own = open_for(root, crate::world::DEADLINE, asker);
            own.claim(&id("a"), None).unwrap();
        }
    }

    /// Kills the operation at its calls, and returns for each kill whether it happened.
    fn kill_everywhere(&self, place: &Place, step: usize) -> Vec<bool> {
        let root = |name: &str| place.root().with_file_name(format!("{}-{name}", self.name));
        let on = |root: &PathBuf| {
            let dir = root.display().to_string();
            let words = ["board", "--json", "--dir", &dir].map(str::to_owned);
            let [board, json, flag, dir] = words;
            let own = self.arguments.iter().map(|word| (*word).to_owned());
            [board, json]
                .into_iter()
                .chain(own)
                .chain([flag, dir])
                .collect::<Vec<_>>()
        };
        let traced = root("traced");
        self.fresh(&traced);
        let before = count(&open(&traced), self.event);
        let arguments = on(&traced);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let points = points(&place.world, &arguments, traced.to_str().unwrap());
        let first = self.name.len() % step;
        let mut all = Vec::new();
        for (number, point) in points.iter().enumerate().skip(first).step_by(step) {
            let root = root(&number.to_string());
            self.fresh(&root);
            let arguments = on(&root);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = kill_at(&place.world, point, &arguments);
            let is_told = !output.stdout.is_empty();
            let board = open(&root);
            let list = board.list().unwrap();
            let issues = list
                .issues
                .iter()
                .map(|issue| (issue.id.to_string(), json!(issue.shown())));
            let issues = Value::Object(issues.collect());
            let events = count(&board, self.event) - before;
            let happened = match self.name {
                "renew" => events == 1,
                _ => (self.happened)(&issues),
            };
            assert_eq!(
                events,
                usize::from(happened),
                "{}: {point:?}: {issues}",
                self.name
            );
            assert!(
                happened || !is_told,
                "{}: {point:?} was acknowledged",
                self.name
            );
            judge(&root);
            // The next operations are not held up.
            board.create(titled("after")).unwrap();
            board.note(&id("a"), "after").unwrap();
            judge(&root);
            // The leftovers under the locks of these two are gone, and a repair finds the rest.
            let left = temporaries(&root);
            let of_others = |name: &&String| {
                [".index.", "-a.", ".a."]
                    .iter()
                    .all(|part| !name.contains(part))
            };
            assert!(
                left.iter().all(|name| of_others(&name)),
                "{}: {point:?}: {left:?}",
                self.name
            );
            board.repair().unwrap();
            assert_eq!(
                temporaries(&root),
                [] as [String; 0],
                "{}: {point:?}",
                self.name
            );
            all.push(happened);
        }
        all
    }
}

/// Returns the names of temporary files.
fn temporaries(root: &Path) -> Vec<String> {
    let directories = [root.to_owned(), root.join("issues"), root.join(".pending")];
    let names = directories.iter().flat_map(|directory| names(directory));
    names.filter(|name| name.ends_with(".tmp")).collect()
}

fn count(board: &Board, kind: &str) -> usize {
    let events = board.events_after(0).unwrap();
    let is_kind =
        |event: &&tenure_board::log::BoardEvent| event.field("type").as_deref() == Some(kind);
    events.iter().filter(is_kind).count()
}

#[test]
fn every_operation_killed_at_any_system_call_happens_wholly_or_not_at_all() {
    let place = Place::new();
    let step = std::env::var_os("TENURE_TEST_EVERY_CALL").map_or(5, |_| 1);
    let mut kills = 0;
    for victim in &VICTIMS {
        let all = victim.kill_everywhere(&place, step);
        assert!(
            all.contains(&true) && all.contains(&false),
            "{}: {all:?}",
            victim.name
        );
        kills += all.len();
    }
    eprintln!("{} operations, killed {kills} times", VICTIMS.len());
}
