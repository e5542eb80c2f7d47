//! A commit over several files that crashed half-way, and an edit of one of them without the lock.
//! Either content may be wanted, so nothing is touched.

use std::fs;
use std::path::Path;

use crate::killed_at::several::{AFTER, BEFORE, UPDATE, before};
use crate::killed_at::{Point, Victim};
use crate::site::{doc, done, everything, names, refused, write};
use crate::world::{World, text};

/// Content written by a program that takes no lock.
const FOREIGN: &str = "{\"foreign\":true}\n";

struct Crash {
    world: World,
    directory: String,
}

impl Crash {
    /// Crashes after so many documents were replaced, all of them journaled.
    fn after(replaced: usize) -> Self {
        let world = World::new();
        let place = Victim {
            world: &world,
            before,
            arguments: &UPDATE,
        };
        let points = place.points();
        let renames = |point: &&(usize, &Point), to: &str| {
            let line = &point.1.line;
            line.starts_with("rename") && line.contains(&format!("{to}\""))
        };
        let points: Vec<(usize, &Point)> = points.iter().enumerate().collect();
        let target = [".journal", "x/a.json"][replaced];
        let last = points.iter().find(|point| renames(point, target));
        let (last, _) = last.expect("the trace shows the rename");
        let (number, point) = points[last + 1];
        let (directory, told) = place.kill(number, point);
        assert!(!told);
        let crash = Self { world, directory };
        let content = |at: usize| [BEFORE[at], AFTER[at]][usize::from(replaced > at)];
        assert_eq!(
            crash.both(),
            [0, 1].map(content),
            "the crash is where it should be"
        );
        crash
    }

    fn path(&self, name: &str) -> String {
        let path = self.world.path(&self.directory).join(name);
        path.display().to_string()
    }

    fn put(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn both(&self) -> [String; 2] {
        ["x/a.json", "y/b.json"].map(|name| text(&fs::read(self.path(name)).unwrap()))
    }

    fn journals(&self) -> Vec<String> {
        let mut all = names(Path::new(&self.path("x")));
        all.retain(|name| name.ends_with(".journal"));
        all
    }

    /// Asserts that every command is refused, and nothing is touched.
    fn assert_stuck(&self, edited: &str) {
        let journals = self.journals();
        let [journal] = &journals[..] else {
            panic!("one journal: {journals:?}");
        };
        let everything_before = everything(Path::new(&self.path("")));
        let (a, b) = (self.path("x/a.json"), self.path("y/b.json"));
        let outputs = [
            doc(&self.world, ["read", &a]),
            doc(&self.world, ["read", &b]),
            doc(&self.world, ["read", &a, &b]),
            doc(&self.world, ["update", &a, "--", "cat"]),
            doc(&self.world, ["update", &b, "--", "cat"]),
            doc(&self.world, ["update", &a, &b, "--", "cat"]),
            write(&self.world, b"{}", [a.as_str()]),
            doc(&self.world, ["clean", "--yes", &a]),
            doc(&self.world, ["clean", "--yes", &b]),
        ];
        for (number, output) in outputs.iter().enumerate() {
            let said = refused(output, 65);
            assert!(said.contains(&self.path(edited)), "{number}: {said}");
            assert!(said.contains(journal.as_str()), "{number}: {said}");
        }
        assert_eq!(everything(Path::new(&self.path(""))), everything_before);
    }

    /// Asserts that reading this document finishes the transaction.
    fn assert_finished_by_reading(&self, name: &str) {
        done(&self.world, ["read", &self.path(name)]);
        assert_eq!(self.both(), AFTER);
        assert_eq!(self.journals(), [""; 0]);
    }
}

#[test]
fn after_a_crash_and_a_foreign_edit_nothing_is_touched_until_the_old_bytes_are_back() {
    let crash = Crash::after(0);
    crash.put("x/a.json", FOREIGN);
    crash.assert_stuck("x/a.json");
    crash.put("x/a.json", BEFORE[0]);
    crash.assert_finished_by_reading("y/b.json");
}

#[test]
fn after_a_crash_between_two_documents_a_foreign_edit_of_the_second_stops_both() {
    let crash = Crash::after(1);
    crash.put("y/b.json", FOREIGN);
    crash.assert_stuck("y/b.json");
    crash.put("y/b.json", BEFORE[1]);
    crash.assert_finished_by_reading("x/a.json");
}

#[test]
fn after_a_crash_between_two_documents_a_foreign_edit_of_the_first_stops_both() {
    let crash = Crash::after(1);
    crash.put("x/a.json", FOREIGN);
    crash.assert_stuck("x/a.json");
    // The new content from the journal will do, too.
    crash.put("x/a.json", AFTER[0]);
    crash.assert_finished_by_reading("y/b.json");
}

#[test]
fn after_a_crash_and_a_foreign_edit_no_command_is_offered_that_is_refused_as_well() {
    let crash = Crash::after(0);
    crash.put("x/a.json", FOREIGN);
    let path = crash.path("x/a.json");
    refused(&write(&crash.world, b"{}", [path.as_str()]), 65);
    let said = refused(&doc(&crash.world, ["read", &path]), 65);
    assert!(!said.contains("tenure doc write"), "{said}");
}

#[test]
fn a_document_removed_after_a_crash_is_a_foreign_edit() {
    let crash = Crash::after(0);
    fs::remove_file(crash.path("y/b.json")).unwrap();
    crash.assert_stuck("y/b.json");
    crash.put("y/b.json", BEFORE[1]);
    crash.assert_finished_by_reading("x/a.json");
}

#[test]
fn removing_the_journal_keeps_all_documents_as_they_are() {
    let crash = Crash::after(0);
    crash.put("x/a.json", FOREIGN);
    fs::remove_file(crash.path("x").to_owned() + "/" + &crash.journals()[0]).unwrap();
    for name in ["x/a.json", "y/b.json"] {
        done(&crash.world, ["read", &crash.path(name)]);
    }
    assert_eq!(crash.both(), [FOREIGN, BEFORE[1]]);
}
