//! The ledger as the harness takes it, and what a scenario does to it.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result, Timestamp};
use tenure_lockfile::FileLocker;
use tenure_os::crashes::{self, Allowed, Violation};
use tenure_os::disk::Disk as _;
use tenure_os::disk::simulated::{Call, SimulatedDisk, State};
use tenure_os::replace::target_of_temporary;

use crate::append::Wanted;
use crate::event::AboutClaims;
use crate::names::Meaning;
use crate::newest::Note;
use crate::tests::asker;
use crate::{AppendTerms, Ledger, event, lock};

/// The event that recovery appends, and the event that further work appends.
const LATER: &str = "{\"type\":\"later\"}";
const LAST: &str = "{\"type\":\"last\"}";

thread_local! {
    /// The seconds that the clock of the test shows.
    static CLOCK: Cell<i64> = const { Cell::new(0) };
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + CLOCK.get() * 1000)
}

/// A ledger. Everything that must survive is on the simulated disk; the kernel lock is real, in a
/// directory of its own that has the same path.
pub(super) struct OneLedger {
    place: Rc<Place>,
    /// A snapshot is written once more events than this had to be replayed.
    replayed_max: u64,
}

struct Place {
    root: tempfile::TempDir,
    /// Ledgers of processes that have ended, for the next ones: nothing in them lasts, and new ones
    /// take time.
    idle: RefCell<Vec<Ledger>>,
}

/// The state that a ledger may have: the content of each event, or that it is missing.
///
/// A number that no event has, an event that is torn, and one that a repair put there all count as
/// missing. So a repair changes nothing in the world; only events appended later come after it.
/// Where an event is missing, the claims that a repair reaps are not compared.
pub(super) type World = Vec<String>;

/// An event that is missing.
const MISSING: &str = "missing";

pub(super) type Scenario = crashes::Scenario<OneLedger>;

/// A process that works on the ledger.
pub(super) struct Process {
    /// `None` only once the process ends.
    ledger: Option<Ledger>,
    place: Rc<Place>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.place.idle.borrow_mut().extend(self.ledger.take());
    }
}

impl crashes::Protocol for OneLedger {
    type World = World;
    type Process = Process;

    fn process(&self, disk: &SimulatedDisk) -> Process {
        let mut ledger = self.place.idle.borrow_mut().pop().unwrap_or_else(|| {
            let wait = Duration::from_millis(30);
            let locker = FileLocker::for_asker(wait, asker("ana")).trusting_the_file_system();
            let disk = Arc::new(disk.clone());
            Ledger::on(self.place.root.path(), locker, disk).unwrap()
        });
        ledger.disk = Arc::new(disk.clone());
        ledger.memory = Arc::default();
        ledger.is_listed = Arc::default();
        ledger.now = now;
        ledger.replayed_max = self.replayed_max;
        // The boot is another than that of the last process, as the power may have been gone.
        let note = disk.state();
        let note = note.file(&ledger.names.newest()).ok().flatten();
        let note = note.map(|note| String::from_utf8_lossy(&note.bytes).into_owned());
        ledger.boot_id = match note.is_some_and(|note| note.contains("boot-1")) {
            true => "boot-2".into(),
            false => "boot-1".into(),
        };
        Process {
            ledger: Some(ledger),
            place: Rc::clone(&self.place),
        }
    }

    fn look(
        &self,
        process: &Process,
        allowed: &Allowed<World>,
        _: usize,
    ) -> Result<World, Violation> {
        let seen = process.events();
        match allowed.worlds().contains(&seen) {
            true => Ok(seen),
            false => Err(format!("{seen:?} is seen, not {allowed}")),
        }
    }

    /// Appends; if an event is missing or torn, repairs first.
    fn recover(&self, process: &Process, _: usize) -> Result<()> {
        process.append_after_repair(LATER)
    }

    fn recovered(&self, world: &World, _: usize) -> World {
        with(world, LATER)
    }

    fn live_on(
        &self,
        process: &Process,
        disk: &SimulatedDisk,
        world: &World,
    ) -> Result<(), Violation> {
        let failed = |error| format!("further work: {error}");
        process.append_after_repair(LAST).map_err(failed)?;
        let (seen, expected) = (process.events(), with(world, LAST));
        if seen != expected {
            return Err(format!("{seen:?} after further work, not {expected:?}"));
        }
        let claims = process.ledger().claims().map_err(failed)?;
        let verified = process.ledger().verify().map_err(failed)?;
        if let Some(finding) = verified.findings.first() {
            return Err(format!("{}: {}", finding.file, finding.problem));
        }
        // A process without the snapshot replays everything, with the same answer.
        disk.remove(&process.ledger().names.snapshot()).ok();
        let again = self.process(disk).ledger().claims().map_err(failed)?;
        match claims == again
            && !disk
                .state()
                .paths()
                .contains(&process.ledger().names.lock())
        {
            true => Ok(()),
            false => Err(format!("{claims:?} with the snapshot, {again:?} without")),
        }
    }

    fn is_temporary(&self, path: &Path) -> bool {
        path.file_name().and_then(target_of_temporary).is_some()
    }

    fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(self.place.root.path()).unwrap_or(path)
    }
}

impl Process {
    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().expect("it has not ended")
    }

    fn events(&self) -> World {
        let ledger = self.ledger();
        let names = ledger.disk.names(ledger.names.ledger()).unwrap();
        let number = |name: &OsString| match ledger.names.meaning(name) {
            Meaning::Event(sequence) => Some(sequence),
            _ => None,
        };
        let newest = names.iter().filter_map(number).max().unwrap_or(0);
        let read = |sequence| ledger.read_bytes(sequence).unwrap();
        let whole = |bytes: &Vec<u8>| {
            let said = AboutClaims::parse(bytes);
            said.is_ok_and(|said| said != AboutClaims::Missing(None))
        };
        let shown = |bytes| String::from_utf8(bytes).unwrap();
        normal(
            (1..=newest).map(|sequence| read(sequence).filter(whole).map_or(MISSING.into(), shown)),
        )
    }

    fn append_after_repair(&self, event: &str) -> Result<()> {
        let appended = self.ledger().append(event);
        if let Err(Error::Corrupt { .. }) = appended {
            self.ledger().repair(crate::Confirmed::Yes)?;
            return self.ledger().append(event).map(drop);
        }
        appended.map(drop)
    }

    /// Appends several events as threads of one process that wait together.
    fn append_together(&self, events: &[&str]) -> Result<()> {
        let request = |event: &&str| {
            let prepared = self.ledger().prepare(&event::new(event)?)?;
            let terms = AppendTerms::default();
            Ok(self.ledger().request(Wanted::Event { prepared, terms }))
        };
        let requests = events.iter().map(request).collect::<Result<Vec<_>>>()?;
        let held = self.ledger().lock(lock::deadline(self.ledger()))?;
        let answers = self.ledger().write_together(&held, requests);
        drop(held);
        answers.into_iter().try_for_each(|answer| answer.map(drop))
    }
}

/// The world with these events.
fn normal(events: impl IntoIterator<Item = String>) -> World {
    let mut events: World = events.into_iter().collect();
    if events.iter().any(|event| event == MISSING) {
        events.retain(|event| !event.contains("lock_reaped"));
    }
    events
}

/// The world after another event.
fn with(seen: &World, event: &str) -> World {
    let mut seen = seen.clone();
    seen.extend(world(&[event]));
    seen
}

/// Events as their files hold them.
pub(super) fn world(events: &[&str]) -> World {
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// The steps of a scenario.
pub(super) trait LedgerScenario: Sized {
    /// Starts with these events, everything durable.
    fn new(name: &'static str, events: &[&str]) -> Self;

    /// Starts with events of these numbers.
    fn with_files(name: &'static str, events: &[(u64, &str)]) -> Self;

    /// Makes every process that reads the claims write a snapshot.
    fn with_snapshots(self) -> Self;

    /// Lets a stranger add an event of two bytes, and sync nothing, not even its name.
    fn stranger(self, sequence: u64) -> Self;

    /// Appends an event.
    fn append(self, event: &'static str) -> Self;

    /// Appends several events together.
    fn append_together(self, events: &'static [&'static str]) -> Self;

    /// Works on claims at a time, which adds these events.
    fn claims(
        self,
        seconds: i64,
        events: &[&str],
        work: impl Fn(&Ledger) -> Result<()> + 'static,
    ) -> Self;

    /// Fills missing events, and appends an event.
    fn repair_and_append(self, event: &'static str) -> Self;

    /// Appends an event behind a stranger's, which is whole as long as the power stays.
    fn append_whole(self, event: &'static str) -> Self;

    /// Lets a process add events, one after the other or together.
    fn adding(self, events: &[&str], work: impl Fn(&Process) -> Result<()> + 'static) -> Self;
}

impl LedgerScenario for Scenario {
    fn new(name: &'static str, events: &[&str]) -> Self {
        let events: Vec<_> = (1..).zip(events.iter().copied()).collect();
        Self::with_files(name, &events)
    }

    fn with_files(name: &'static str, events: &[(u64, &str)]) -> Self {
        let protocol = OneLedger {
            place: Rc::new(Place {
                root: tempfile::tempdir().unwrap(),
                idle: RefCell::default(),
            }),
            replayed_max: u64::MAX,
        };
        let mut state = State::default();
        for directory in [protocol.place.root.path().to_owned(), protocol.ledger()] {
            std::fs::create_dir_all(&directory).unwrap();
            state.add_directory(directory);
        }
        let mut seen = World::new();
        for (sequence, event) in events {
            let path = protocol.ledger().join(format!("event-{sequence:06}.json"));
            state.add_file(path, format!("{event}\n").as_bytes());
            seen.resize(*sequence as usize - 1, MISSING.into());
            seen.extend(world(&[event]));
        }
        if let Some((newest, _)) = events.last() {
            let path = protocol.ledger().join(".newest");
            state.add_file(path, Note::text(*newest, 0, "boot-0", 0).as_bytes());
            // The file of the lock is made before the first note.
            state.add_file(protocol.ledger().join(".ledger.lock.tmp"), b"");
        }
        let mut scenario = Self::start(name, protocol, state, Allowed::only(seen));
        // Where events are durable to begin with, no step needs a sync of them.
        scenario.sync_matters = |sync| sync.call != Call::SyncFile;
        scenario
    }

    fn with_snapshots(mut self) -> Self {
        self.protocol.replayed_max = 0;
        self
    }

    fn stranger(mut self, sequence: u64) -> Self {
        let disk = SimulatedDisk::without_history(self.start.clone());
        let path = self
            .protocol
            .ledger()
            .join(format!("event-{sequence:06}.json"));
        disk.create(&path, 0o600).unwrap().write(b"{}").unwrap();
        self.start = disk.state();
        self.sync_matters = |_| true;
        // Linux tells once that content could not be saved; the next process that syncs does not
        // hear of it.
        self.failure_matters = |operation| operation.call != Call::SyncFile;
        let seen = |event: &'static str| {
            self.at_first.then(move |world| {
                let mut world = world.clone();
                world.push(event.into());
                world
            })
        };
        self.at_first = self.at_first.or(&seen(MISSING)).or(&seen("{}"));
        self
    }

    fn append(self, event: &'static str) -> Self {
        self.adding(&[event], move |process| process.append_together(&[event]))
    }

    fn repair_and_append(mut self, event: &'static str) -> Self {
        // The directory is synced again with the event, and a repair that is lost is made again.
        self.sync_matters = |sync| sync.call == Call::Sync;
        self.adding(&[event], move |process| {
            process.ledger().repair(crate::Confirmed::Yes)?;
            process.append_together(&[event])
        })
    }

    fn append_together(self, events: &'static [&'static str]) -> Self {
        self.adding(events, |process| process.append_together(events))
    }

    fn claims(
        self,
        seconds: i64,
        events: &[&str],
        work: impl Fn(&Ledger) -> Result<()> + 'static,
    ) -> Self {
        self.adding(events, move |process| {
            CLOCK.set(seconds);
            work(process.ledger())
        })
    }

    /// Lets `work` add these events, one after the other. Before they are synced, a power loss may
    /// keep any of them.
    fn adding(self, events: &[&str], work: impl Fn(&Process) -> Result<()> + 'static) -> Self {
        let last = self.last().clone();
        let kept = |mask: usize| {
            last.then(|seen| {
                let is_kept = |number: usize| mask >> number & 1 == 1;
                let last = (0..events.len()).rfind(|number| is_kept(*number));
                let mut seen = seen.clone();
                let placed = last.map_or(0, |last| last + 1);
                for (number, event) in events.iter().take(placed).enumerate() {
                    match is_kept(number) {
                        true => seen.extend(world(&[event])),
                        false => seen.push(MISSING.into()),
                    }
                }
                normal(seen)
            })
        };
        let all = (1 << events.len()) - 1;
        let between = (0..all).fold(kept(0), |between, mask| between.or(&kept(mask)));
        let after = kept(all);
        self.step(after, work).by_way_of(between)
    }

    fn append_whole(self, event: &'static str) -> Self {
        let mut whole = self.at_first.worlds().last().cloned().unwrap();
        whole.extend(world(&[event]));
        self.step(Allowed::only(whole), |process| {
            process.append_together(&[event])
        })
    }
}

impl OneLedger {
    fn ledger(&self) -> PathBuf {
        self.place.root.path().join("ledger")
    }
}
