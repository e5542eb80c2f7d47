//! SIGKILL at every system call that changes something.
//!
//! A command is traced once, to list the calls it makes. Then it is made anew for each of those
//! calls, on a ledger of its own, and killed instead of making it. A killed process leaves its
//! writes behind, whether they were synced or not, so these ledgers lie where syncing costs
//! nothing.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::place::{Place, X, claim_event, count, judge, put};
use crate::strace::{Point, kill_at, points};
use crate::world::code;

/// A command that is killed at each of its calls.
struct Victim<'a> {
    place: &'a Place,
    directory: TempDir,
    /// Makes the ledger as it is before the command.
    before: fn(&Path),
    /// The command; `DIR` stands for the directory of the ledger.
    arguments: &'a [&'a str],
}

impl Victim<'_> {
    fn fresh(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        tenure_ledger::Ledger::init(&path, None).unwrap();
        (self.before)(&path);
        path
    }

    fn on(&self, directory: &Path) -> Vec<String> {
        let own = |argument: &&str| argument.replace("DIR", directory.to_str().unwrap());
        self.arguments.iter().map(own).collect()
    }

    /// Kills the command at every call. Returns for each kill the ledger, whether the command was
    /// acknowledged, and the call.
    fn kill_everywhere(&self) -> Vec<(PathBuf, bool, Point)> {
        let traced = self.fresh("traced");
        let arguments = self.on(&traced);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let points = points(&self.place.world, &arguments, "/ledger");
        let mut left = Vec::new();
        for (number, point) in points.into_iter().enumerate() {
            let directory = self.fresh(&format!("killed-{number}"));
            let arguments = self.on(&directory);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = kill_at(&self.place.world, &point, &arguments);
            left.push((directory, !output.stdout.is_empty(), point));
        }
        left
    }

    /// Asserts that after each kill the next append is not held up, and that the replay of others
    /// agrees. Returns for each kill the number of events that it left, and whether it was
    /// acknowledged.
    fn check(&self, before: usize) -> Vec<(usize, bool)> {
        let mut added = Vec::new();
        let left = self.kill_everywhere();
        for (directory, told, point) in &left {
            let events = count(directory);
            added.push((events - before, *told));
            let name = directory.to_str().unwrap();
            let next = self.place.done(&["append", name, "--no-wait", X]);
            assert_eq!(next, (events + 1).to_string(), "{point:?}");
            assert!(!directory.join("ledger/ledger.lock").exists(), "{point:?}");
            let names = crate::site::names(&directory.join("ledger"));
            let left = names.iter().find(|name| name.starts_with(".event-"));
            assert_eq!(left, None, "{point:?}");
            let verified = self.place.call(&["verify", name]);
            assert_eq!(code(&verified), 0, "{point:?}: {verified:?}");
        }
        let left: Vec<&Path> = left
            .iter()
            .map(|(directory, ..)| directory.as_path())
            .collect();
        judge(&left);
        added
    }
}

#[test]
fn a_file_system_without_files_that_have_no_name_is_written_to_as_well() {
    let place = Place::new();
    let append = ["ledger", "append", "p", X];
    let traced = points(&place.world, &append, "/ledger");
    let is_meant = |point: &&Point| point.line.contains("O_TMPFILE");
    let point = traced.iter().find(is_meant).expect("it makes such a file");
    let filter = format!("trace={}", point.call);
    let inject = format!(
        "inject={}:error=EOPNOTSUPP:when={}",
        point.call, point.number
    );
    let options = ["-e", filter.as_str(), "-e", inject.as_str()];
    let mut command = crate::strace::strace(&place.world, &options, &append);
    let output = crate::site::Process::start(&mut command).end();
    assert_eq!(output.stdout, b"2\n", "{output:?}");
    let left = place
        .names()
        .into_iter()
        .filter(|name| name.starts_with(".event-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn an_append_killed_at_any_system_call_is_there_whole_or_not_at_all() {
    let place = Place::new();
    let victim = Victim {
        place: &place,
        directory: tempfile::tempdir_in("/dev/shm").unwrap(),
        before: |directory| put(directory, 1, X),
        arguments: &["ledger", "append", "DIR", "{\"type\":\"y\"}"],
    };
    let added = victim.check(1);
    eprintln!("an append, killed {} times", added.len());
    for (events, told) in &added {
        assert!(*events == 1 || (*events == 0 && !told));
    }
    assert!(added.contains(&(0, false)) && added.contains(&(1, false)));
}

/// Writes two claims that are over.
fn over(directory: &Path) {
    for (sequence, node) in [(1, "1.1"), (2, "1.2")] {
        let (at, until) = ("2024-01-15T10:30:00Z", Some("2024-01-15T10:35:00Z"));
        let event = claim_event("lock_acquired", node, "old", at, until);
        put(directory, sequence, &event);
    }
}

#[test]
fn a_claim_killed_at_any_system_call_leaves_the_node_with_one_owner_or_none() {
    let place = Place::new();
    let victim = Victim {
        place: &place,
        directory: tempfile::tempdir_in("/dev/shm").unwrap(),
        before: over,
        arguments: &["ledger", "claim", "DIR", "1.1", "--owner", "new"],
    };
    // The old claim is reaped first.
    let added = victim.check(2);
    eprintln!("a claim, killed {} times", added.len());
    for (events, told) in &added {
        assert!(*events == 2 || !told);
    }
    for events in [0, 1, 2] {
        assert!(added.iter().any(|(added, _)| *added == events), "{events}");
    }
}

#[test]
fn a_reap_killed_at_any_system_call_ends_each_claim_once() {
    let place = Place::new();
    let victim = Victim {
        place: &place,
        directory: tempfile::tempdir_in("/dev/shm").unwrap(),
        before: over,
        arguments: &["ledger", "reap", "DIR", "--json"],
    };
    let added = victim.check(2);
    eprintln!("a reap, killed {} times", added.len());
    for (events, told) in &added {
        assert!(*events == 2 || !told);
    }
}
