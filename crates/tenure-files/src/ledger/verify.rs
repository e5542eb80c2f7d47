//! Finding the faults of a ledger. Nothing is changed, and no lock is taken.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde::Serialize;
use tenure_core::{Error, Result, Timestamp};

use super::Ledger;
use super::append_queue::TOGETHER_MAX;
use super::lock::STALE;
use super::names::{Form, Meaning};
use super::newest::GAP;
use super::state::State;

/// A look at a whole ledger.
#[derive(Debug, Default, Serialize)]
pub struct Verified {
    /// The number of events before the first gap.
    pub events: u64,
    /// The problems.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The name of the file in the directory of the ledger.
    pub file: String,
    /// The problem.
    pub problem: String,
    /// The action of a repair, or the remedy instead.
    pub repair: String,
    #[serde(skip)]
    pub(super) cure: Cure,
    /// True if it was repaired.
    #[serde(skip)]
    pub repaired: bool,
}

/// The action of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cure {
    /// Nothing that a program could decide.
    None,
    /// Moves the file out of the way, and keeps it.
    MoveAside,
    /// Removes it, as no event is lost with it.
    Remove,
    /// Moves a lock aside, if its maker is gone.
    TakeOut,
}

impl Cure {
    fn in_words(self) -> &'static str {
        match self {
            Cure::None => "it is not repaired by a program: restore it from a copy",
            Cure::MoveAside => "--repair moves it aside and keeps it",
            Cure::Remove => "--repair removes it",
            Cure::TakeOut => {
                "--repair --yes moves it aside, if you are sure that its maker is gone"
            }
        }
    }
}

/// The observations of one look at the events.
#[derive(Default)]
struct History {
    state: State,
    /// The snapshot, until its event is met.
    snapshot: Option<State>,
    /// The first event of those at the end that are torn.
    torn_since: Option<u64>,
}

impl Ledger {
    /// Looks at every file.
    pub fn verify(&self) -> Result<Verified> {
        let ledger = self.names.ledger();
        let names = self.disk.names(ledger);
        let mut names = names.map_err(|source| Error::io("list", ledger, source))?;
        names.sort();
        let mut found = Verified::default();
        let mut events = BTreeSet::new();
        for name in &names {
            let shown = name.to_string_lossy();
            match self.names.meaning(name) {
                Meaning::Event(sequence) => {
                    events.insert(sequence);
                }
                Meaning::AlmostEvent => {
                    let problem = "it is named like an event, but not as one: programs that count \
                                   events count it";
                    found.add(&shown, problem, Cure::MoveAside);
                }
                Meaning::Temporary if self.age_of(&shown) > STALE => {
                    found.add(&shown, "it was left by a process that ended", Cure::Remove);
                }
                // In the other form names that are not events are nobody's concern.
                Meaning::Foreign if self.names.form == Form::Seed => {
                    found.add(&shown, "it is not part of a ledger", Cure::None);
                    found.last().repair = "move it away if no program needs it".into();
                }
                _ => {}
            }
        }
        self.verify_lock(&mut found)?;
        self.verify_events(&events, &mut found)?;
        Ok(found)
    }

    fn verify_lock(&self, found: &mut Verified) -> Result<()> {
        if let Some(foreign) = self.foreign_lock()?
            && foreign.age > STALE
        {
            found.add("ledger.lock", &foreign.holder, Cure::TakeOut);
        }
        Ok(())
    }

    fn verify_events(&self, events: &BTreeSet<u64>, found: &mut Verified) -> Result<()> {
        let mut history = History {
            snapshot: self.snapshot(),
            ..History::default()
        };
        for sequence in events.iter().copied() {
            // Some that came while the names were listed may be missing among them.
            while found.events + 1 < sequence && self.has(found.events + 1)? {
                self.verify_event(found.events + 1, &mut history, found);
            }
            if found.events + 1 < sequence {
                self.behind_the_gap(events.range(sequence..), found);
                break;
            }
            if found.events < sequence {
                self.verify_event(sequence, &mut history, found);
            }
        }
        // The newest events may be torn, where their program did not sync them. Moved aside, they leave
        // their numbers free.
        for sequence in history.torn_since.unwrap_or(u64::MAX)..=found.events {
            let name = self.name_of(sequence);
            for finding in found
                .findings
                .iter_mut()
                .filter(|finding| finding.file == name)
            {
                finding.cure = Cure::MoveAside;
                finding.repair = finding.cure.in_words().into();
            }
        }
        Ok(())
    }

    fn verify_event(&self, sequence: u64, history: &mut History, found: &mut Verified) {
        found.events = sequence;
        let applied = match self.read_bytes(sequence) {
            Ok(bytes) => history.state.apply(sequence, &bytes.unwrap_or_default()),
            Err(Error::Corrupt { problem, .. }) => Err(problem),
            Err(error) => Err(error.to_string()),
        };
        match applied {
            Ok(odd) => {
                history.torn_since = None;
                if let Some(odd) = odd {
                    found.add(&self.name_of(sequence), &odd, Cure::None);
                    found.last().repair = "what was written stays; look at who wrote it".into();
                }
            }
            Err(problem) => {
                history.torn_since.get_or_insert(sequence);
                found.add(&self.name_of(sequence), &problem, Cure::None);
            }
        }
        let snapshot = history
            .snapshot
            .take_if(|snapshot| snapshot.sequence == sequence);
        if snapshot.is_some_and(|snapshot| !snapshot.is_same_history(&history.state)) {
            let problem = format!(
                "the events up to {sequence} are not those it was made of: one was edited since"
            );
            found.add(".snapshot.json", &problem, Cure::Remove);
        }
    }

    fn behind_the_gap<'a>(&self, behind: impl Iterator<Item = &'a u64>, found: &mut Verified) {
        let missing = found.events + 1;
        found.add(&self.name_of(missing), GAP, Cure::None);
        for sequence in behind {
            // No crash leaves one further away: someone removed an event.
            let cure = match *sequence <= found.events + TOGETHER_MAX as u64 {
                true => Cure::MoveAside,
                false => Cure::None,
            };
            let problem = format!("it lies behind the gap at {missing}");
            found.add(&self.name_of(*sequence), &problem, cure);
        }
        if found.last().cure == Cure::None {
            for finding in &mut found.findings {
                if finding.problem.starts_with("it lies behind") {
                    finding.cure = Cure::None;
                    finding.repair = "restore what is missing before it".into();
                }
            }
        } else {
            let gap = found
                .findings
                .iter_mut()
                .find(|finding| finding.problem == GAP);
            if let Some(gap) = gap {
                gap.repair =
                    "restore it from a copy; or --repair moves aside what lies behind it".into();
            }
        }
    }

    fn name_of(&self, sequence: u64) -> String {
        let path = self.names.event(sequence);
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn age_of(&self, name: &str) -> Duration {
        let found = fs::symlink_metadata(self.names.ledger().join(name));
        let made = found
            .and_then(|found| found.modified())
            .map(Timestamp::from);
        made.map_or(Duration::ZERO, |made| (self.now)().since(made))
    }
}

impl Verified {
    fn add(&mut self, file: &str, problem: &str, cure: Cure) {
        self.findings.push(Finding {
            file: file.to_owned(),
            problem: problem.to_owned(),
            repair: cure.in_words().to_owned(),
            cure,
            repaired: false,
        });
    }

    fn last(&mut self) -> &mut Finding {
        self.findings.last_mut().expect("one was just added")
    }
}
