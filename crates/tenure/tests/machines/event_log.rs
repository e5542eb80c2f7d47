//! The event log of a machine, and what a check reads from it.
//!
//! An entry is one line, written with one call before the machine goes on, so that it survives the
//! end of the machine. A machine that is killed may leave half a line, its last.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure::Mode;

use crate::moment::Moment;

/// A machine, and its life: it gets a new one after each crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Who {
    pub machine: u32,
    pub life: u32,
}

/// One line of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A lock was granted.
    Granted(Grant),
    /// The guard said, at that moment or later, that it holds.
    Vouched { hold: u64, at: Moment },
    /// The guard told that the lock is lost.
    Told { hold: u64, at: Moment },
    /// The machine began to give the lock back.
    Releasing { hold: u64, at: Moment },
    /// The store said that the lock is given back.
    Released { hold: u64, at: Moment },
    /// The guard was dropped, and no task waits for the result.
    Dropped { hold: u64, at: Moment },
    /// A late holder tried what a lost lock gives no right to.
    Late { hold: u64, late: Late },
    /// The register took a value.
    Wrote {
        resource: u32,
        value: i64,
        answered: Moment,
    },
    /// The register was read under a shared lock.
    Read {
        resource: u32,
        value: i64,
        asked: Moment,
        answered: Moment,
    },
    /// A lock was not granted; the class is that of the error.
    Missed { class: String },
    /// The machine did nothing for a while: it was stopped, or starved.
    Gap { from: Moment, to: Moment },
    /// Something happened that must not.
    Surprise { what: String },
}

/// A grant as the machine knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub hold: u64,
    pub resource: u32,
    pub mode: Mode,
    pub token: u64,
    pub lease: String,
    pub asked: Moment,
    pub granted: Moment,
}

/// The results of using a lost lock, from `at` on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    pub at: Moment,
    /// The store was asked to renew the lease.
    pub renewal: Outcome,
    /// The store was asked whether the token is still good.
    pub token: Outcome,
    /// The guard was released.
    pub release: Outcome,
}

/// The answer to something that was tried with a lost lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    Refused,
    /// The store could not be asked or did not answer, with the reason.
    NoAnswer(String),
}

/// The open event log of a machine.
pub struct EventLog(File);

impl EventLog {
    pub fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(file.unwrap())
    }

    pub fn note(&self, entry: &Entry) {
        let mut line = serde_json::to_string(entry).unwrap();
        line.push('\n');
        (&self.0).write_all(line.as_bytes()).unwrap();
    }
}

/// One grant, and everything known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub who: Who,
    pub grant: Grant,
    /// The first and the last moment the guard vouched for.
    pub vouched: Option<(Moment, Moment)>,
    pub told: Option<Moment>,
    pub releasing: Option<Moment>,
    pub released: Option<Moment>,
    pub dropped: Option<Moment>,
    pub late: Option<Late>,
}

impl Hold {
    pub fn new(who: Who, grant: Grant) -> Self {
        Self {
            who,
            grant,
            vouched: None,
            told: None,
            releasing: None,
            released: None,
            dropped: None,
            late: None,
        }
    }

    pub fn is_exclusive(&self) -> bool {
        self.grant.mode == Mode::Write
    }

    /// Returns when its holder stopped to rely on it, or `None` if the machine did not live to say.
    pub fn stopped(&self) -> Option<Moment> {
        [self.told, self.releasing, self.dropped]
            .into_iter()
            .flatten()
            .min()
    }
}

/// A write that was acknowledged, or a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub resource: u32,
    pub value: i64,
    pub asked: Moment,
    pub answered: Moment,
}

/// Everything that machines wrote down in a round.
#[derive(Debug, Default)]
pub struct Account {
    pub holds: Vec<Hold>,
    pub gaps: Vec<(Who, Moment, Moment)>,
    /// The moment at which a value of a resource was acknowledged.
    pub wrote: BTreeMap<(u32, i64), Moment>,
    pub reads: Vec<Seen>,
    pub missed: BTreeMap<String, u64>,
    pub surprises: Vec<String>,
}

impl Account {
    /// Adds the entries of an event log.
    pub fn read(&mut self, who: Who, path: &Path) {
        // A machine that is killed early has no log.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut holds: BTreeMap<u64, Hold> = BTreeMap::new();
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            if !line.ends_with('\n') && lines.peek().is_none() {
                break;
            }
            let entry: Entry = serde_json::from_str(line).unwrap();
            self.add(who, entry, &mut holds);
        }
        self.holds.extend(holds.into_values());
    }

    fn add(&mut self, who: Who, entry: Entry, holds: &mut BTreeMap<u64, Hold>) {
        match entry {
            Entry::Granted(grant) => {
                holds.insert(grant.hold, Hold::new(who, grant));
            }
            Entry::Vouched { hold, at } => {
                let vouched = &mut of(holds, hold).vouched;
                *vouched = Some((vouched.map_or(at, |(first, _)| first), at));
            }
            Entry::Told { hold, at } => of(holds, hold).told = Some(at),
            Entry::Releasing { hold, at } => of(holds, hold).releasing = Some(at),
            Entry::Released { hold, at } => of(holds, hold).released = Some(at),
            Entry::Dropped { hold, at } => of(holds, hold).dropped = Some(at),
            Entry::Late { hold, late } => of(holds, hold).late = Some(late),
            Entry::Wrote {
                resource,
                value,
                answered,
            } => {
                self.wrote.insert((resource, value), answered);
            }
            Entry::Read {
                resource,
                value,
                asked,
                answered,
            } => self.reads.push(Seen {
                resource,
                value,
                asked,
                answered,
            }),
            Entry::Missed { class } => *self.missed.entry(class).or_default() += 1,
            Entry::Gap { from, to } => self.gaps.push((who, from, to)),
            Entry::Surprise { what } => self.surprises.push(format!("{who:?}: {what}")),
        }
    }
}

/// Returns a hold, which is there since its grant is logged first.
fn of(holds: &mut BTreeMap<u64, Hold>, hold: u64) -> &mut Hold {
    holds.get_mut(&hold).unwrap()
}
