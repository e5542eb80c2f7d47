//! A board of its own. When it is dropped, index, files and log must agree.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_board::issue::IssueId;
use tenure_board::{Board, FileCaller, NewIssue};

use crate::world::{DEADLINE, World, code, json, text};

pub struct Place {
    pub world: World,
    /// The board lies in memory, where syncing costs nothing: these tests are about concurrency,
    /// not durability.
    memory: TempDir,
    /// True if the files are broken on purpose.
    broken: bool,
}

impl Place {
    /// Makes a place with an empty board.
    pub fn new() -> Self {
        let place = Self {
            world: World::new(),
            memory: tempfile::tempdir_in("/dev/shm").unwrap(),
            broken: false,
        };
        Board::init(&place.root()).unwrap();
        place
    }

    pub fn stays_broken(&mut self) {
        self.broken = true;
    }

    pub fn root(&self) -> PathBuf {
        self.memory.path().join("board")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Opens the board by the library.
    pub fn board(&self) -> Board {
        open(&self.root())
    }

    /// Returns `tenure board ARGUMENTS --dir …`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.tenure();
        command.arg("board").args(self.on(arguments));
        command
    }

    /// Returns the arguments with the board, which comes before a command to be run.
    pub fn on(&self, arguments: &[&str]) -> Vec<String> {
        let cut = arguments
            .iter()
            .position(|word| *word == "--")
            .unwrap_or(arguments.len());
        let root = self.root().display().to_string();
        let (own, rest) = arguments.split_at(cut);
        let own = own.iter().map(|word| (*word).to_owned());
        let rest = rest.iter().map(|word| (*word).to_owned());
        own.chain(["--dir".to_owned(), root]).chain(rest).collect()
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
        let output = self.call(&[&["--json"], arguments].concat());
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
        json(&output.stdout)
    }

    /// Returns an issue as `show` prints it.
    #[track_caller]
    pub fn issue(&self, id: &str) -> Value {
        self.json(&["show", id])["issues"][0].clone()
    }

    /// Reads the file of an issue, without its lock.
    pub fn issue_unlocked(&self, id: &str) -> Value {
        let file = fs::read(self.path(&format!("issues/{id}.json"))).unwrap();
        serde_json::from_slice(&file).unwrap()
    }

    /// Creates issues with these ids.
    pub fn add(&self, ids: &[&str]) {
        let board = self.board();
        for issue in ids {
            board.create(titled(issue)).unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.broken {
            judge(&self.root());
        }
    }
}

pub fn id(text: &str) -> IssueId {
    text.parse().unwrap()
}

/// Returns a new issue whose title is its id.
pub fn titled(issue: &str) -> NewIssue {
    let mut new = NewIssue::titled(issue);
    new.id = Some(id(issue));
    new
}

pub fn open(root: &Path) -> Board {
    Board::open(root, DEADLINE * 4).unwrap()
}

/// Opens the board by the library for another asker.
pub fn open_for(root: &Path, wait: Duration, asker: tenure::store::Asker) -> Board {
    let board = Board::open(root, wait).unwrap();
    board.for_caller(&FileCaller::new(asker, wait))
}

/// Asserts that index, files and log agree, whichever process wrote them: no id twice, a file for
/// each, an event for each, no event twice.
#[track_caller]
pub fn judge(root: &Path) {
    let list = open(root).list().unwrap();
    assert_eq!(list.unreadable, [], "{}", root.display());
    let index: Value = serde_json::from_slice(&fs::read(root.join("index.json")).unwrap()).unwrap();
    let ids = |name: &str| {
        let ids = index[name].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (all, deleted) = (ids("all_ids"), ids("deleted_ids"));
    let unique: BTreeSet<&String> = all.iter().chain(&deleted).collect();
    assert_eq!(
        unique.len(),
        all.len() + deleted.len(),
        "an id is there twice: {index}"
    );
    let files = crate::site::names(&root.join("issues")).into_iter();
    let files = files.filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
    let files: BTreeSet<String> = files.filter(|name| !name.starts_with('.')).collect();
    assert_eq!(
        files,
        all.iter().cloned().collect(),
        "index and files differ"
    );
    let log = fs::read_to_string(root.join("events.jsonl")).unwrap();
    let mut seen = HashSet::new();
    let mut created = BTreeSet::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(
            seen.insert(event["id"].as_str().unwrap().to_owned()),
            "twice: {line}"
        );
        if event["type"] == "issue_created" {
            created.insert(event["issue_id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(
        created,
        unique.into_iter().cloned().collect(),
        "log and index differ"
    );
}
