//! The board as the harness takes it, and what a scenario does to it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Owner, Result, Timestamp};
use tenure_lockfile::FileLocker;
use tenure_os::crashes::{self, Allowed, Violation};
use tenure_os::disk::simulated::{Call, SimulatedDisk, State};
use tenure_os::replace::target_of_temporary;

use crate::issue::{Issue, IssueId};
use crate::names::uuid_of;
use crate::{Board, GateBy, NewIssue};

thread_local! {
    /// The seconds that every clock shows.
    static CLOCK: Cell<i64> = const { Cell::new(0) };
    /// The number of the next change.
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + CLOCK.get() * 1000)
}

fn boot_now() -> u64 {
    u64::try_from(CLOCK.get() * 1000).unwrap()
}

/// Returns an id that is the same in every run, so that a state is known again.
fn new_uuid() -> String {
    let number = NEXT.get();
    NEXT.set(number + 1);
    format!("00000000-0000-4000-8000-{number:012}")
}

/// A board. Everything that must survive is on the simulated disk; the kernel locks are real, in a
/// directory of their own that has the same path.
pub(super) struct OneBoard {
    place: Rc<Place>,
    pending_max: usize,
}

struct Place {
    root: tempfile::TempDir,
    /// Boards of processes that have ended, for the next ones: nothing in them lasts, and new ones
    /// take time.
    idle: RefCell<Vec<Board>>,
}

/// The state that a board may have: its issues, its gates, and its log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) issues: BTreeMap<String, String>,
    pub(super) gates: BTreeSet<String>,
    pub(super) events: Vec<String>,
}

pub(super) type Scenario = crashes::Scenario<OneBoard>;

/// A process that works on the board.
pub(super) struct Process {
    /// `None` only once the process ends.
    board: Option<Board>,
    place: Rc<Place>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.place.idle.borrow_mut().extend(self.board.take());
    }
}

impl crashes::Protocol for OneBoard {
    type World = World;
    type Process = Process;

    fn process(&self, disk: &SimulatedDisk) -> Process {
        let mut board = self.place.idle.borrow_mut().pop().unwrap_or_else(|| {
            let locker = FileLocker::new(Duration::from_millis(100)).trusting_the_file_system();
            Board::on(self.place.root.path(), locker, Arc::new(disk.clone())).unwrap()
        });
        let state = disk.state();
        board.disk = Arc::new(disk.clone());
        board.pending_seen = Arc::default();
        board.is_recovered = Arc::default();
        board.owner = Owner::parse("ana").unwrap();
        (board.now, board.boot_now, board.new_uuid) = (now, boot_now, new_uuid);
        board.pending_max = self.pending_max;
        board.boot_id = format!("boot-{}", state.boot);
        let lines = state.file(&board.names.log()).ok().flatten();
        let lines = lines.map_or(0, |log| log.bytes.split(|byte| *byte == b'\n').count());
        NEXT.set(16 * (lines + self.pending(&state).len()));
        Process {
            board: Some(board),
            place: Rc::clone(&self.place),
        }
    }

    /// Returns a low limit: a change is in so many files that all states of all crashes would take
    /// hours.
    fn states_max(&self) -> u128 {
        32
    }

    fn look(
        &self,
        process: &Process,
        allowed: &Allowed<World>,
        _: usize,
    ) -> Result<World, Violation> {
        let seen = process
            .world()
            .map_err(|error| format!("looking: {error}"))?;
        match allowed.worlds().contains(&seen) {
            true => Ok(seen),
            false => Err(format!("{seen:?} is seen, not {allowed}")),
        }
    }

    fn recover(&self, process: &Process, _: usize) -> Result<()> {
        process.make_board()?;
        process.board().define_gate("later", GateBy::Anyone)
    }

    fn recovered(&self, world: &World, _: usize) -> World {
        let mut world = world.event("gate_defined later");
        world.gates.insert("later".into());
        world
    }

    fn live_on(
        &self,
        process: &Process,
        disk: &SimulatedDisk,
        world: &World,
    ) -> Result<(), Violation> {
        let failed = |error| format!("further work: {error}");
        process.make_board().map_err(failed)?;
        process.create("last").map_err(failed)?;
        let expected = world
            .with("last", "last open 2 v1")
            .event("issue_created last");
        let seen = process.world().map_err(failed)?;
        if seen != expected {
            return Err(format!("{seen:?} after further work, not {expected:?}"));
        }
        let board = process.board();
        let (left, tail) = (
            board.unfinished().map_err(failed)?,
            board.tail(0).map_err(failed)?,
        );
        let whole = tail.lines.len() as u64 == board.log_length().map_err(failed)?;
        match left.is_empty() && whole && tail.iter().count() == seen.events.len() {
            true => Ok(()),
            false => Err(format!(
                "{left:?} is left, or the log is torn: {:?}",
                disk.state().paths()
            )),
        }
    }

    /// Fails if a file of a deleted issue is there.
    fn examine(&self, state: &State) -> Result<(), Violation> {
        let root = self.place.root.path();
        let index = state.file(&root.join("index.json")).ok().flatten();
        let index =
            index.and_then(|index| serde_json::from_slice::<serde_json::Value>(&index.bytes).ok());
        let deleted = index
            .as_ref()
            .and_then(|index| index["deleted_ids"].as_array());
        for id in deleted.into_iter().flatten().filter_map(|id| id.as_str()) {
            let path = root.join(format!("issues/{id}.json"));
            if state.file(&path).is_ok_and(|file| file.is_some()) {
                return Err(format!("{} came back", path.display()));
            }
        }
        Ok(())
    }

    fn is_temporary(&self, path: &Path) -> bool {
        path.file_name().and_then(target_of_temporary).is_some()
    }

    fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(self.place.root.path()).unwrap_or(path)
    }
}

impl OneBoard {
    fn pending(&self, state: &State) -> Vec<PathBuf> {
        let paths = state.paths().into_iter();
        let is_pending = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| uuid_of(name, ".json").is_some())
        };
        paths.filter(is_pending).collect()
    }
}

impl Process {
    pub(super) fn board(&self) -> &Board {
        self.board.as_ref().expect("it has not ended")
    }

    pub(super) fn create(&self, id: &str) -> Result<()> {
        let mut new = NewIssue::titled(id);
        new.id = Some(id.parse()?);
        self.board().create(new).map(drop)
    }

    fn has_board(&self) -> bool {
        let index = self.board().names.index();
        self.board().disk.exists(&index).unwrap_or(true)
    }

    /// Makes a board if there is none, as the command does.
    fn make_board(&self) -> Result<()> {
        match self.has_board() {
            true => Ok(()),
            false => self.board().fill(),
        }
    }

    pub(super) fn world(&self) -> Result<World> {
        if !self.has_board() {
            return Ok(World::default());
        }
        let list = self.board().list()?;
        if let Some(broken) = list.unreadable.first() {
            return Err(tenure_core::Error::corrupt(&broken.file, &broken.problem));
        }
        let issue = |issue: &Issue| (issue.id.to_string(), summary(issue));
        let event = |event: crate::log::BoardEvent| {
            let kind = event.field("type").unwrap_or_default();
            let about = event.field("issue_id").or(event.field("gate"));
            format!("{kind} {}", about.unwrap_or_default())
        };
        let gates = serde_json::to_value(self.board().load_gates()?.value).unwrap();
        let gates = gates["gates"].as_object().unwrap().keys().cloned();
        Ok(World {
            issues: list.issues.iter().map(issue).collect(),
            gates: gates.collect(),
            events: self
                .board()
                .events_after(0)?
                .into_iter()
                .map(event)
                .collect(),
        })
    }
}

/// Returns `TITLE STATE PRIORITY vVERSION`, and the other fields that are set.
fn summary(issue: &Issue) -> String {
    let state = serde_json::to_value(issue.state).unwrap();
    let mut text = format!(
        "{} {} {} v{}",
        issue.title,
        state.as_str().unwrap(),
        issue.priority,
        issue.version
    );
    for on in &issue.depends_on {
        text += &format!(" on {on}");
    }
    for (gate, state) in &issue.gates {
        text += &format!(" {gate} {state}");
    }
    if let Some(claim) = &issue.claim {
        let until = (claim.expires_at.as_millis() - 1_700_000_000_000) / 1000;
        text += &format!(" by {} until {until}", claim.owner);
    }
    for note in &issue.notes {
        text += &format!(" note {}", note.text);
    }
    text
}

impl World {
    pub(super) fn with(&self, id: &str, summary: &str) -> Self {
        let mut world = self.clone();
        world.issues.insert(id.into(), summary.into());
        world
    }

    pub(super) fn without(&self, id: &str) -> Self {
        let mut world = self.clone();
        world.issues.remove(id);
        world
    }

    pub(super) fn event(&self, event: &str) -> Self {
        let mut world = self.clone();
        world.events.push(event.into());
        world
    }
}

/// The steps of a scenario.
pub(super) trait BoardScenario: Sized {
    /// Starts with a board with these issues, everything durable.
    fn new(name: &'static str, issues: &[&str]) -> Self;

    /// Starts with an empty directory.
    fn empty(name: &'static str) -> Self;

    /// Makes every change sync its files at once.
    fn with_checkpoints(self) -> Self;

    /// Works on the board at a time, after which the world is the one that `after` returns.
    fn then(
        self,
        seconds: i64,
        after: impl Fn(&World) -> World,
        work: impl Fn(&Board) -> Result<()> + 'static,
    ) -> Self;
}

impl BoardScenario for Scenario {
    fn new(name: &'static str, issues: &[&str]) -> Self {
        let start = Self::empty(name);
        let disk = SimulatedDisk::without_history(start.start.clone());
        let process = crashes::Protocol::process(&start.protocol, &disk);
        process.board().fill().unwrap();
        process.board().make_pending_directory().unwrap();
        let mut world = World::default();
        let titles = ["fix", "test", "ship"];
        for (id, title) in issues.iter().zip(titles) {
            let issue = Issue {
                title: title.into(),
                ..crate::issue::tests::issue(id)
            };
            let path = process.board().names.issue(&issue.id);
            let text = issue.encode().unwrap();
            disk_put(&disk, &path, &text);
            world = world.with(id, &summary(&issue));
        }
        let ids: Vec<String> = issues.iter().map(|id| format!("\"{id}\"")).collect();
        let index = format!(
            "{{\"schema_version\":1,\"all_ids\":[{}],\"deleted_ids\":[]}}",
            ids.join(",")
        );
        disk_put(&disk, &process.board().names.index(), &index);
        drop(process);
        let mut durable = None;
        disk.state()
            .after_power_loss(&mut |state| durable = Some(state));
        let state = durable.expect("there is one where everything got to the disk");
        let mut scenario = Self::start(name, start.protocol, state, Allowed::only(world));
        scenario.failure_matters = |operation| operation.call != Call::SyncFile;
        scenario
    }

    fn empty(name: &'static str) -> Self {
        let protocol = OneBoard {
            place: Rc::new(Place {
                root: tempfile::tempdir().unwrap(),
                idle: RefCell::default(),
            }),
            pending_max: usize::MAX,
        };
        let root = protocol.place.root.path().to_owned();
        // The kernel locks need a real directory.
        std::fs::create_dir(root.join("issues")).unwrap();
        let mut state = State::default();
        state.add_directory(root);
        Self::start(name, protocol, state, Allowed::only(World::default()))
    }

    fn with_checkpoints(mut self) -> Self {
        self.protocol.pending_max = 1;
        self
    }

    fn then(
        self,
        seconds: i64,
        after: impl Fn(&World) -> World,
        work: impl Fn(&Board) -> Result<()> + 'static,
    ) -> Self {
        let after = self.last().then(after);
        self.step(after, move |process| {
            CLOCK.set(seconds);
            work(process.board())
        })
    }
}

fn disk_put(disk: &SimulatedDisk, path: &Path, text: &str) {
    tenure_os::replace::replace(disk, path, text.as_bytes(), None).unwrap();
}

pub(super) fn id(text: &str) -> IssueId {
    text.parse().unwrap()
}
