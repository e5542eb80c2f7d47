//! Every crash of a publish on the simulated disk, in all ten steps, as the product makes them.
//!
//! The records are a file here that is replaced durably and atomically, as a database does with its
//! rows. Locks are real, in a real directory with the simulated path: they end with the process, so
//! there is nothing to simulate.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::records::{
    Columns, Fence, Record, RecordChange, RecordKey, RecordPage, RecordQuery, RecordStore, Records,
    WakeUps,
};
use tenure::store::Asker;
use tenure::{Error, Keeper, Owner, Result, SessionId, SessionOptions, Timestamp};
use tenure_core::Reply;
use tenure_core::records::Write;
use tenure_files::publish::PublishTarget;
use tenure_os::cancel::Cancel;
use tenure_os::crashes::{self, Allowed, Scenario, Violation, check};
use tenure_os::disk::Disk;
use tenure_os::disk::simulated::{Operation, SimulatedDisk, State};

use super::{Manifest, ManifestState, Progress, Publisher, Request, publish_with, recover};

const OLD: [(&str, &str); 1] = [("old.txt", "old")];
/// Returns the time of every change, so that two runs write equal records.
fn now() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

/// The contents of a directory: the first version, and the versions that are published after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Content {
    Nothing,
    Old,
    New(usize),
}

/// The directory in place, and the state in the manifest.
type World = (Content, String);

/// A real directory to publish, with a mode that keeps an ordinary user from moving it.
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
    /// Makes the directory writable: an ordinary user could not remove it otherwise.
    fn drop(&mut self) {
        self.set_mode(0o700);
    }
}

/// A target, and the real directories that are published to it.
#[derive(Clone)]
struct Publishing(Rc<Scene>);

struct Scene {
    root: tempfile::TempDir,
    sources: Vec<Source>,
    runtime: tokio::runtime::Runtime,
    /// The keeper, of which only the policy of retries is used.
    keeper: Keeper,
    asker: Asker,
}

struct Process {
    publishing: Publishing,
    records: SimulatedRecords,
}

impl Publishing {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("data")).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.build().unwrap();
        let keeper = runtime.block_on(Keeper::open("memory:")).unwrap();
        let owner = Owner::parse("ana@desk").unwrap();
        Self(Rc::new(Scene {
            sources: (0..4).map(Source::new).collect(),
            asker: SessionOptions::new(owner).asker(),
            root,
            runtime,
            keeper,
        }))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.root.path().join(name)
    }

    fn target(&self) -> PathBuf {
        self.at("data/tiles")
    }
}

impl Process {
    fn target(&self) -> PathBuf {
        self.publishing.target()
    }

    /// Does work as the publisher of this source.
    fn as_publisher<T>(
        &self,
        number: usize,
        work: impl AsyncFnOnce(Publisher<'_>) -> Result<T>,
    ) -> Result<T> {
        let scene = &self.publishing.0;
        let id = format!("id-{number}");
        let disk: Arc<dyn Disk> = Arc::new(self.records.disk.clone());
        let publish_target = PublishTarget::on(self.target(), &id, disk);
        let request = Request {
            source: scene.sources[number].0.path().to_owned(),
            publish_target: &publish_target,
            id,
            op_type: "test".into(),
            fence: Fence {
                resource: "target".parse().unwrap(),
                token: 1.try_into().unwrap(),
                lease: None,
            },
            asker: scene.asker.clone(),
            wait: Duration::from_secs(5),
        };
        let records = Records::of(&scene.keeper, &self.records);
        let publisher = Publisher {
            records,
            request: &request,
        };
        scene.runtime.block_on(work(publisher))
    }

    fn publish(&self, id: usize) -> Result<()> {
        let keeper = &self.publishing.0.keeper;
        self.as_publisher(id, async |publisher| {
            let Publisher { records, request } = publisher;
            let published = publish_with(keeper, records, request, &Progress::default()).await?;
            let disk = request.publish_target.disk();
            recover::remove(&records, &published, &request.asker.owner, disk).await?;
            Ok(())
        })
    }

    /// Ends the pending manifests, as every publish does first.
    fn recover(&self) -> Result<()> {
        let keeper = &self.publishing.0.keeper;
        self.as_publisher(0, async |publisher| {
            recover::pending_of(keeper, &publisher, &Cancel::default()).await
        })
    }

    /// Returns the manifest of the scenario, or the one of the last process.
    fn manifest(&self, id: usize) -> Option<Manifest> {
        let key = RecordKey::new("manifest", format!("id-{id}")).unwrap();
        let record = self
            .records
            .load()
            .ok()?
            .into_iter()
            .find(|record| record.key == key);
        record.map(|record| super::manifest::of(&record).unwrap())
    }

    fn content(&self) -> Result<Content, Violation> {
        let (state, target) = (self.records.disk.state(), self.target());
        if !state.is_directory(&target) {
            return Ok(Content::Nothing);
        }
        let mut found: Vec<(PathBuf, String)> = Vec::new();
        for path in state
            .paths()
            .into_iter()
            .filter(|path| path.starts_with(&target))
        {
            let file = state.file(&path).unwrap().unwrap();
            let text = String::from_utf8_lossy(&file.bytes).into_owned();
            found.push((path.strip_prefix(&target).unwrap().to_owned(), text));
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

/// Records in one file of a simulated disk, for which every lease and token is good.
struct SimulatedRecords {
    disk: SimulatedDisk,
    directory: PathBuf,
}

impl SimulatedRecords {
    /// Records that are read are durable from here on, as they are once a database has committed
    /// anything after them.
    fn load(&self) -> Result<Vec<Record>> {
        let path = self.directory.join("records");
        let failed = |error| Error::io("read", &path, error);
        self.disk.sync_directory(&self.directory).map_err(failed)?;
        let found = self.disk.content(&path, 1 << 20).map_err(failed)?;
        let rows: Vec<(String, String, u64, Value)> =
            found.map_or_else(Vec::new, |found| serde_json::from_slice(&found).unwrap());
        let record = |(kind, id, version, body): (String, String, u64, Value)| Record {
            key: RecordKey::new(&kind, id).unwrap(),
            version,
            columns: Columns::default(),
            body,
            changed_at: now(),
        };
        Ok(rows.into_iter().map(record).collect())
    }

    /// Writes all records as a database does: durably, and wholly or not at all.
    fn save(&self, records: &[Record]) -> Result<()> {
        let row = |record: &Record| {
            let mut body = record.body.clone();
            if body.get("created_at").is_some() {
                body["created_at"] = json!(now());
            }
            (
                record.key.kind().to_owned(),
                record.key.id().to_owned(),
                record.version,
                body,
            )
        };
        let rows: Vec<_> = records.iter().map(row).collect();
        let path = self.directory.join("records");
        let new = self.directory.join(".records.0123456789abcdef.tmp");
        let failed = |error| Error::io("write", &path, error);
        let _ = self.disk.remove(&new);
        let mut file = self.disk.create(&new, 0o600).map_err(failed)?;
        file.write(&serde_json::to_vec(&rows).unwrap())
            .map_err(failed)?;
        file.sync().map_err(failed)?;
        self.disk.rename(&new, &path).map_err(failed)?;
        self.disk.sync_directory(&self.directory).map_err(failed)
    }

    fn change(&self, change: &RecordChange<'_>) -> Result<Vec<Record>> {
        let mut records = self.load()?;
        let named = records
            .iter()
            .filter(|record| change.keys().any(|key| *key == record.key));
        let fences = change.fences().iter();
        let found: Vec<_> = fences.map(|fence| (None, Some(fence.token))).collect();
        let decided = change.decided(named.cloned().collect(), &found, now())?;
        for write in &decided.writes {
            let key = match write {
                Write::Insert(record, _) | Write::Body(record, _) | Write::All(record, _) => {
                    &record.key
                }
                Write::Delete(key) => key,
            };
            records.retain(|record| record.key != *key);
        }
        let written = decided.written();
        records.extend(written.iter().cloned());
        records.sort_by(|one, other| one.key.cmp(&other.key));
        self.save(&records)?;
        Ok(written)
    }
}

impl RecordStore for SimulatedRecords {
    fn read_record<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Record>> {
        let found = self.load();
        let found = found.map(|all| all.into_iter().find(|record| record.key == *key));
        Box::pin(std::future::ready(found))
    }

    fn list_records<'a>(&'a self, query: &'a RecordQuery) -> Reply<'a, RecordPage> {
        let is_asked =
            |record: &Record| record.key.kind() == query.kind() && record.key.id() > query.after();
        let found = self
            .load()
            .map(|all| all.into_iter().filter(is_asked).collect());
        Box::pin(std::future::ready(found.map(|found| query.page(found))))
    }

    fn change_records<'a>(&'a self, change: &'a RecordChange<'a>) -> Reply<'a, Vec<Record>> {
        Box::pin(std::future::ready(self.change(change)))
    }

    fn listen<'a>(&'a self, _: &'a SessionId) -> Reply<'a, Box<dyn WakeUps>> {
        unreachable!("a publish waits for no wake-up")
    }
}

impl crashes::Protocol for Publishing {
    type World = World;
    type Process = Process;

    fn process(&self, disk: &SimulatedDisk) -> Process {
        Process {
            publishing: self.clone(),
            records: SimulatedRecords {
                disk: disk.clone(),
                directory: self.at("store"),
            },
        }
    }

    fn look(
        &self,
        process: &Process,
        allowed: &Allowed<World>,
        _: usize,
    ) -> Result<World, Violation> {
        let state = process
            .manifest(1)
            .map_or_else(|| "none".to_owned(), |manifest| manifest.state.to_string());
        let seen = (process.content()?, state);
        let mode = process.records.disk.state().mode(&self.target());
        if seen.1 == "committed" && mode != Some(SOURCE_MODE) {
            return Err(format!("the mode of what is committed is {mode:?}"));
        }
        if allowed.worlds().contains(&seen) {
            Ok(seen)
        } else {
            Err(format!("{seen:?} is seen, not {allowed}"))
        }
    }

    fn recover(&self, process: &Process, _: usize) -> Result<()> {
        process.recover()
    }

    /// Returns the world after recovery, which ends a pending manifest by the directory in place.
    fn recovered(&self, world: &World, _: usize) -> World {
        let (content, state) = world;
        let state = match (state.as_str(), content) {
            ("pending", Content::New(1)) => "committed",
            ("pending", _) => "aborted",
            (state, _) => state,
        };
        (*content, state.to_owned())
    }

    /// Publishes once more, and checks that everything is in order.
    fn live_on(&self, process: &Process, _: &SimulatedDisk, _: &World) -> Result<(), Violation> {
        process.publish(3).map_err(|error| error.to_string())?;
        let (content, manifest) = (process.content()?, process.manifest(3));
        let committed = manifest.is_some_and(|manifest| manifest.state == ManifestState::Committed);
        if content == Content::New(3) && committed {
            Ok(())
        } else {
            Err(format!("{content:?} after another publish"))
        }
    }

    fn is_temporary(&self, _: &Path) -> bool {
        false
    }
}

/// Returns the scenario of a publish over an old directory, or where nothing is. The target is old
/// or new at every moment, and the manifest never says `committed` before it is new.
fn scenario(name: &'static str, before: Content) -> Scenario<Publishing> {
    let publishing = Publishing::new();
    let mut start = State::default();
    for directory in ["", "data", "store"] {
        start.add_directory(publishing.at(directory));
    }
    if before == Content::Old {
        start.add_directory(publishing.target());
        for (name, text) in OLD {
            start.add_file(publishing.target().join(name), text.as_bytes());
        }
    }
    let world = |content, state: &str| Allowed::only((content, state.to_owned()));
    let at_first = world(before, "none");
    let between = world(before, "pending")
        .or(&world(Content::New(1), "pending"))
        .or(&world(before, "aborted"))
        .or(&world(Content::New(1), "committed"));
    let mut scenario = Scenario::start(name, publishing, start, at_first)
        .step(world(Content::New(1), "committed"), |process| {
            process.publish(1)
        })
        .by_way_of(between)
        .and_then();
    // The syncs of the records stand for syncs of a database, which are its own matter.
    scenario.sync_matters = |sync: &Operation| !is_in_store(&sync.path);
    scenario.failure_matters = |failed: &Operation| !is_in_store(&failed.path);
    scenario
}

fn is_in_store(path: &Path) -> bool {
    path.iter().any(|name| name == "store")
}

#[test]
fn a_directory_is_published_over_another_whole_or_not_at_all() {
    check(&scenario("publish over a directory", Content::Old));
}

#[test]
fn a_directory_is_published_where_nothing_was_whole_or_not_at_all() {
    check(&scenario("publish where nothing was", Content::Nothing));
}
