//! Finding the faults of a ledger, without a change and without a lock.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tenure_api::Finding;
use tenure_api::ledger::Verified;
use tenure_core::{Error, Result, Timestamp};

use super::Ledger;
use super::event::seconds;
use super::held_claims::lasts_too_long;
use super::lock::STALE;
use super::names::{Form, Meaning};
use super::newest::GAP;
use super::state::{Applied, State};

/// The most missing events that are filled.
const FILLED_MAX: u64 = 1024;

/// The findings of a look at a whole ledger, with the cure for each.
#[derive(Debug, Default)]
pub(super) struct Flaws {
    /// The number of events before the first gap.
    pub(super) events: u64,
    pub(super) flaws: Vec<Flaw>,
}

/// A fault, and its cure.
#[derive(Debug)]
pub(super) struct Flaw {
    pub(super) finding: Finding,
    pub(super) cure: Cure,
    /// The node that the event is about, if it is about one alone.
    pub(super) node: Option<String>,
}

/// The repair of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cure {
    /// No program can decide what to do.
    None,
    /// Moves the file out of the way, and keeps it.
    MoveAside,
    /// Removes the file, as no event is lost with it.
    Remove,
    /// Moves a lock aside, if its maker is gone.
    TakeOut,
    /// Marks an event as missing, and keeps what is there.
    Fill,
    /// Ends a claim.
    End,
}

impl Cure {
    fn in_words(self) -> &'static str {
        match self {
            Cure::None => "it is not repaired by a program: restore it from a copy",
            Cure::MoveAside => "{.repair} moves it aside and keeps it",
            Cure::Remove => "{.repair} removes it",
            Cure::TakeOut => {
                "{.repair} {.confirmed} moves it aside, if you are sure that its maker is gone"
            }
            Cure::Fill => {
                "restore it from a copy; or {.repair} {.confirmed} puts event_missing in its place, and ends the \
                 claims from before it"
            }
            Cure::End => "its owner releases it; or {.repair} {.confirmed} ends it",
        }
    }
}

/// The state of one look at the events.
#[derive(Default)]
struct History {
    state: State,
    /// The snapshot, until its event is met.
    snapshot: Option<State>,
    /// True if an event is missing, so that the claims are not known for sure.
    has_gap: bool,
}

impl Ledger {
    /// Looks at every file.
    pub fn verify(&self) -> Result<Verified> {
        let Flaws { events, flaws } = self.flaws()?;
        let findings = flaws.into_iter().map(|flaw| flaw.finding).collect();
        Ok(Verified { events, findings })
    }

    pub(super) fn flaws(&self) -> Result<Flaws> {
        let ledger = self.names.ledger();
        // The acknowledged number is read before the names are listed: an event acknowledged later
        // may not be among them.
        let acknowledged = self.acknowledged(self.note().as_ref());
        let names = self.disk.names(ledger);
        let mut names = names.map_err(|source| Error::io("list", ledger, source))?;
        names.sort();
        let mut found = Flaws::default();
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
                // In the other form, names that are not events are no fault.
                Meaning::Foreign if self.names.form == Form::Seed => {
                    found.add(&shown, "it is not part of a ledger", Cure::None);
                    found.last().finding.repair = "move it away if no program needs it".into();
                }
                _ => {}
            }
        }
        self.verify_lock(&mut found)?;
        self.verify_events(&events, acknowledged, &mut found)?;
        if self.names.form == Form::Af {
            for flaw in &mut found.flaws {
                flaw.cure = Cure::None;
                flaw.finding.repair =
                    "repair it with the program that wrote it: such a ledger is only read".into();
            }
        }
        Ok(found)
    }

    fn verify_lock(&self, found: &mut Flaws) -> Result<()> {
        if let Some(foreign) = self.foreign_lock()?
            && foreign.age > STALE
        {
            found.add("ledger.lock", &foreign.holder, Cure::TakeOut);
        }
        Ok(())
    }

    fn verify_events(
        &self,
        listed: &BTreeSet<u64>,
        acknowledged: u64,
        found: &mut Flaws,
    ) -> Result<()> {
        let mut history = History {
            snapshot: self.snapshot(),
            ..History::default()
        };
        let newest = listed.last().copied().unwrap_or(0).max(acknowledged);
        let missing = newest.saturating_sub(listed.len() as u64);
        for sequence in 1..=newest {
            // An event that came while the names were listed may be missing among them.
            if listed.contains(&sequence) || self.has(sequence)? {
                self.verify_event(sequence, &mut history, found);
                continue;
            }
            history.has_gap = true;
            if missing > FILLED_MAX {
                let problem = format!("{GAP}, as are {} more", missing - 1);
                found.add(&self.name_of(sequence), &problem, Cure::None);
                found.last().finding.repair =
                    "restore them from a copy, or move away what lies behind them".into();
                break;
            }
            found.add(&self.name_of(sequence), GAP, Cure::Fill);
        }
        let clock = (self.now)();
        let claims = history.state.claims.iter();
        for claim in claims.filter(|claim| lasts_too_long(claim, clock)) {
            let problem = format!(
                "{} claimed {} until {}, which is longer than a claim lasts",
                claim.owner,
                claim.node,
                seconds(claim.expires_at)
            );
            found.add(&self.name_of(claim.token), &problem, Cure::End);
        }
        Ok(())
    }

    fn verify_event(&self, sequence: u64, history: &mut History, found: &mut Flaws) {
        if found.events + 1 == sequence {
            found.events = sequence;
        }
        let (applied, cure) = match self.read_bytes(sequence) {
            Ok(bytes) => {
                let applied = history.state.apply(sequence, &bytes.unwrap_or_default());
                (applied, Cure::Fill)
            }
            Err(Error::Corrupt { problem, .. }) => (Err(problem), Cure::Fill),
            Err(error) => (Err(error.to_string()), Cure::None),
        };
        let name = self.name_of(sequence);
        match applied {
            Ok(Applied::Well) => {}
            Ok(Applied::Odd(_)) if history.has_gap => {}
            Ok(Applied::Odd(odd)) => {
                found.add(&name, &odd, Cure::None);
                found.last().finding.repair = "what was written stays; look at who wrote it".into();
            }
            Ok(Applied::Malformed { node, problem }) => {
                found.add(&name, &problem, Cure::Fill);
                found.last().node = node;
            }
            // An event that followed from one that is gone may look odd without it.
            Ok(Applied::Missing) => history.has_gap = true,
            Err(problem) => found.add(&name, &problem, cure),
        }
        let snapshot = history
            .snapshot
            .take_if(|snapshot| snapshot.sequence == sequence && found.events == sequence);
        if snapshot.is_some_and(|snapshot| !snapshot.is_same_history(&history.state)) {
            let problem = format!(
                "the events up to {sequence} are not those it was made of: one was edited since"
            );
            found.add(".snapshot.json", &problem, Cure::Remove);
        }
    }

    pub(super) fn name_of(&self, sequence: u64) -> String {
        let path = self.names.event(sequence);
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    pub(super) fn age_of(&self, name: &str) -> Duration {
        let found = fs::symlink_metadata(self.names.ledger().join(name));
        let made = found
            .and_then(|found| found.modified())
            .map(Timestamp::from);
        made.map_or(Duration::ZERO, |made| (self.now)().since(made))
    }
}

impl Flaws {
    fn add(&mut self, file: &str, problem: &str, cure: Cure) {
        let finding = Finding {
            file: file.to_owned(),
            problem: problem.to_owned(),
            repair: cure.in_words().into(),
            repaired: false,
        };
        let node = None;
        self.flaws.push(Flaw {
            finding,
            cure,
            node,
        });
    }

    fn last(&mut self) -> &mut Flaw {
        self.flaws.last_mut().expect("one was just added")
    }
}
