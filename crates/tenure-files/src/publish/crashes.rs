//! Every crash of a publish on the simulated disk, all ten steps.
//!
//! The manifest is a file here that is replaced durably and atomically, as a database does it with a row; everything else is what
//! `tenure_work::publish` calls in this order.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use tenure_core::Result;

use super::{CrashOutcome, Inode, Progress, PublishTarget};
use crate::crashes::{self, Allowed, Scenario, Violation, check};
use crate::disk::Disk as _;
use crate::disk::simulated::{Operation, SimulatedDisk, State};

const TARGET: &str = "/data/tiles";
const OLD: [(&str, &str); 1] = [("old.txt", "old")];

/// The contents of a directory: the first version, and those that are published one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Content {
    Nothing,
    Old,
    New(usize),
}

/// The directory in place, and the state in the manifest.
type World = (Content, String);

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    id: usize,
    state: String,
    old: Option<Inode>,
    new: Option<Inode>,
    mode: Option<u32>,
}

/// A real directory to publish. Its mode is one that a directory cannot be moved with by an ordinary user.
struct Source(tempfile::TempDir);

const SOURCE_MODE: u32 = 0o555;

impl Source {
    fn new(number: usize) -> Self {
        let source = tempfile::tempdir().unwrap();
        std::fs::create_dir(source.path().join("inner")).unwrap();
        std::fs::write(source.path().join("a.txt"), format!("a of {number}")).unwrap();
        std::fs::write(source.path().join("inner/b.txt"), format!("b of {number}")).unwrap();
        let source = Self(source);
        source.set_mode(SOURCE_MODE);
        source
    }

    fn set_mode(&self, mode: u32) {
        std::fs::set_permissions(self.0.path(), PermissionsExt::from_mode(mode)).unwrap();
    }
}

impl Drop for Source {
    /// Else an ordinary user could not remove it.
    fn drop(&mut self) {
        self.set_mode(0o700);
    }
}

/// A target, and the real directories that are published to it.
struct Publishing {
    sources: Rc<Vec<Source>>,
}

struct Process {
    disk: SimulatedDisk,
    sources: Rc<Vec<Source>>,
}

impl Publishing {
    fn new() -> Self {
        Self {
            sources: Rc::new((0..4).map(Source::new).collect()),
        }
    }
}

impl Process {
    fn publish_target(&self, id: usize) -> PublishTarget {
        PublishTarget::on(
            TARGET.into(),
            &format!("id-{id}"),
            Box::new(self.disk.clone()),
        )
    }

    fn row(&self) -> Option<Row> {
        let found = self
            .disk
            .content(Path::new("/store/row"), 1 << 20)
            .ok()
            .flatten()?;
        Some(serde_json::from_slice(&found).unwrap())
    }

    /// Writes the row as a database does: durably, and wholly or not at all.
    fn write_row(&self, row: &Row) -> Result<()> {
        let (path, directory) = (Path::new("/store/row"), Path::new("/store"));
        let new = directory.join(".row.0123456789abcdef.tmp");
        let failed = |error| tenure_core::Error::io("write", path, error);
        let _ = self.disk.remove(&new);
        let mut file = self.disk.create(&new, 0o600).map_err(failed)?;
        file.write(&serde_json::to_vec(row).unwrap())
            .map_err(failed)?;
        file.sync().map_err(failed)?;
        self.disk.rename(&new, path).map_err(failed)?;
        self.disk.sync_directory(directory).map_err(failed)
    }

    /// The ten steps, but for the lease.
    fn publish(&self, id: usize) -> Result<()> {
        self.recover()?;
        let publish_target = self.publish_target(id);
        let mut row = Row {
            id,
            state: "pending".into(),
            old: None,
            new: None,
            mode: None,
        };
        self.write_row(&row)?;
        let done = self.publish_to(&publish_target, &mut row);
        if done.is_err() {
            // A publish that failed is given up as recovery would do it.
            let _ = self.recover();
        }
        done
    }

    fn publish_to(&self, publish_target: &PublishTarget, row: &mut Row) -> Result<()> {
        let new = publish_target.make_tmp()?;
        row.new = Some(new.clone());
        self.write_row(row)?;
        let copied = publish_target.copy(self.sources[row.id].0.path(), &Progress::default())?;
        publish_target.check_target()?;
        (row.old, row.mode) = (publish_target.inode_of_target()?, Some(copied.mode));
        self.write_row(row)?;
        publish_target.put_in_place(row.old.as_ref(), &new, copied.mode)?;
        row.state = "committed".into();
        self.write_row(row)?;
        let old: Vec<&Inode> = row.old.iter().collect();
        publish_target.remove_tmp(&old, true).map(drop)
    }

    fn recover(&self) -> Result<()> {
        // A row that is read is durable from here on, as it is once a database has committed anything after it.
        let store = Path::new("/store");
        let synced = self.disk.sync_directory(store);
        synced.map_err(|error| tenure_core::Error::io("sync", store, error))?;
        let Some(mut row) = self.row().filter(|row| row.state == "pending") else {
            return Ok(());
        };
        let publish_target = self.publish_target(row.id);
        let outcome = publish_target.judge(row.old.as_ref(), row.new.as_ref(), true)?;
        match outcome {
            CrashOutcome::Aborted => {}
            CrashOutcome::Finished => publish_target.finish(row.mode)?,
            CrashOutcome::ExchangeBack => publish_target.exchange_back()?,
        }
        row.state = if outcome == CrashOutcome::Finished {
            "committed"
        } else {
            "aborted"
        }
        .into();
        self.write_row(&row)?;
        let named: Vec<&Inode> = row.old.iter().chain(&row.new).collect();
        publish_target.remove_tmp(&named, true).map(drop)
    }

    fn content(&self) -> Result<Content, Violation> {
        let state = self.disk.state();
        if !state.is_directory(Path::new(TARGET)) {
            return Ok(Content::Nothing);
        }
        let mut found: Vec<(PathBuf, String)> = Vec::new();
        for path in state
            .paths()
            .into_iter()
            .filter(|path| path.starts_with(TARGET))
        {
            let file = state.file(&path).unwrap().unwrap();
            let text = String::from_utf8_lossy(&file.bytes).into_owned();
            found.push((path.strip_prefix(TARGET).unwrap().to_owned(), text));
        }
        found.sort();
        let files = |files: &[(&str, String)]| -> Vec<(PathBuf, String)> {
            files
                .iter()
                .map(|(path, text)| (path.into(), text.clone()))
                .collect()
        };
        if found == files(&OLD.map(|(path, text)| (path, text.to_owned()))) {
            return Ok(Content::Old);
        }
        let new = |number: &usize| {
            let both = [
                ("a.txt", format!("a of {number}")),
                ("inner/b.txt", format!("b of {number}")),
            ];
            found == files(&both)
        };
        (0..4)
            .find(new)
            .map(Content::New)
            .ok_or_else(|| format!("torn: {found:?}"))
    }
}

impl crashes::Protocol for Publishing {
    type World = World;
    type Process = Process;

    fn process(&self, disk: &SimulatedDisk) -> Process {
        Process {
            disk: disk.clone(),
            sources: Rc::clone(&self.sources),
        }
    }

    fn look(
        &self,
        process: &Process,
        allowed: &Allowed<World>,
        _: usize,
    ) -> Result<World, Violation> {
        let state = process.row().map_or("none".to_owned(), |row| row.state);
        let seen = (process.content()?, state);
        let mode = process.disk.state().mode(Path::new(TARGET));
        if seen.1 == "committed" && mode != Some(SOURCE_MODE) {
            return Err(format!("the mode of what is committed is {mode:?}"));
        }
        match allowed.worlds().contains(&seen) {
            true => Ok(seen),
            false => Err(format!("{seen:?} is seen, not {allowed}")),
        }
    }

    fn recover(&self, process: &Process, _: usize) -> Result<()> {
        process.recover()
    }

    /// Recovery makes of a pending manifest what is in place.
    fn recovered(&self, world: &World, _: usize) -> World {
        let (content, state) = world;
        let state = match (state.as_str(), content) {
            ("pending", Content::New(1)) => "committed",
            ("pending", _) => "aborted",
            (state, _) => state,
        };
        (*content, state.to_owned())
    }

    /// The next publish finds everything in order, and is in place.
    fn live_on(&self, process: &Process, _: &SimulatedDisk, _: &World) -> Result<(), Violation> {
        process.publish(3).map_err(|error| error.to_string())?;
        let (content, row) = (process.content()?, process.row());
        let committed = row.is_some_and(|row| row.id == 3 && row.state == "committed");
        match content == Content::New(3) && committed {
            true => Ok(()),
            false => Err(format!("{content:?} after another publish")),
        }
    }

    fn is_temporary(&self, _: &Path) -> bool {
        false
    }
}

/// A publish over what is there, or where nothing is. The target is old or new at every moment, and the manifest never says
/// `committed` before it is new.
fn scenario(name: &'static str, before: Content) -> Scenario<Publishing> {
    let mut start = State::default();
    for directory in ["/", "/data", "/store"] {
        start.add_directory(directory);
    }
    if before == Content::Old {
        start.add_directory(TARGET);
        for (name, text) in OLD {
            start.add_file(Path::new(TARGET).join(name), text.as_bytes());
        }
    }
    let world = |content, state: &str| Allowed::only((content, state.to_owned()));
    let at_first = world(before, "none");
    let between = world(before, "pending")
        .or(&world(Content::New(1), "pending"))
        .or(&world(before, "aborted"))
        .or(&world(Content::New(1), "committed"));
    let mut scenario = Scenario::start(name, Publishing::new(), start, at_first)
        .step(world(Content::New(1), "committed"), |process| {
            process.publish(1)
        })
        .by_way_of(between)
        .and_then();
    // The syncs of the row are those of a database, which are its own matter.
    scenario.sync_matters = |sync: &Operation| !sync.path.starts_with("/store");
    scenario.failure_matters = |failed: &Operation| !failed.path.starts_with("/store");
    scenario
}

#[test]
fn a_directory_is_published_over_another_whole_or_not_at_all() {
    check(&scenario("publish over a directory", Content::Old));
}

#[test]
fn a_directory_is_published_where_nothing_was_whole_or_not_at_all() {
    check(&scenario("publish where nothing was", Content::Nothing));
}
