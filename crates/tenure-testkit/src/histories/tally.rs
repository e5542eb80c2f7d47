//! The count of what the histories met: a history that never meets a conflict proves nothing.

use std::fmt;

use tenure::Mode;

use super::model::{Model, Outcome, Want};
use super::step::{Step, What, Who};

/// The number of times that each thing was met.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    histories: u32,
    steps: u32,
    /// The cells of the matrix, by mode held, then mode asked for.
    cells: [[u32; 3]; 3],
    events: [u32; EVENTS.len()],
}

const EVENTS: [&str; 16] = [
    "granted",
    "not acquired",
    "timeouts",
    "timeouts of upgrades",
    "waits",
    "waits for upgrades",
    "granted after a wait",
    "upgraded after a wait",
    "upgraded at once",
    "downgraded",
    "dropped waits",
    "re-entry errors",
    "order errors",
    "conflicts",
    "crashes",
    "crashes of waiters",
];

impl Tally {
    /// Counts a step: the model before it, and the model after.
    pub(super) fn count(&mut self, before: &Model, step: &Step, after: &Model) {
        self.steps += 1;
        match step {
            Step::Try(who, what, mode) | Step::Acquire(who, what, mode) => {
                self.cells(before, *who, *what, *mode);
            }
            Step::Wait(who, what, mode) => {
                self.cells(before, *who, *what, *mode);
                self.event("waits");
            }
            Step::WaitUpgrade(..) => self.event("waits for upgrades"),
            Step::Cancel(_) => self.event("dropped waits"),
            Step::Crash(who) => {
                self.event("crashes");
                if before.waiter(*who).is_some() {
                    self.event("crashes of waiters");
                }
            }
            Step::Downgrade(..) if after.outcome == Outcome::Done => self.event("downgraded"),
            _ => {}
        }
        let of_upgrade = matches!(step, Step::Upgrade(..) | Step::TryUpgrade(..));
        match &after.outcome {
            Outcome::Granted if of_upgrade => self.event("upgraded at once"),
            Outcome::Granted => self.event("granted"),
            Outcome::NotAcquired => self.event("not acquired"),
            Outcome::TimesOut if of_upgrade => self.event("timeouts of upgrades"),
            Outcome::TimesOut => self.event("timeouts"),
            Outcome::Reentry(_) => self.event("re-entry errors"),
            Outcome::Order(..) => self.event("order errors"),
            Outcome::Conflict => self.event("conflicts"),
            Outcome::Waits | Outcome::Done => {}
        }
        for called in &after.called {
            match called.want {
                Want::Lease(_) => self.event("granted after a wait"),
                Want::Upgrade => self.event("upgraded after a wait"),
            }
        }
    }

    pub(super) fn history(&mut self) {
        self.histories += 1;
    }

    /// Adds the counts of another tally.
    pub(super) fn add(&mut self, other: &Tally) {
        self.histories += other.histories;
        self.steps += other.steps;
        let counts = self.cells.as_flattened_mut().iter_mut();
        for (count, more) in counts.zip(other.cells.as_flattened()) {
            *count += more;
        }
        for (count, more) in self.events.iter_mut().zip(other.events) {
            *count += more;
        }
    }

    /// Counts the cells that decide a request; none if something else decides it.
    fn cells(&mut self, before: &Model, who: Who, what: What, asked: Mode) {
        let decided = matches!(
            before.ask(who, &[(what, asked)]),
            Outcome::Granted | Outcome::NotAcquired
        );
        if !decided || before.waiter(who).is_some() || before.line(what).next().is_some() {
            return;
        }
        for held in before.held.iter().filter(|held| held.what == what) {
            self.cells[held.mode as usize][asked as usize] += 1;
        }
    }

    fn event(&mut self, name: &str) {
        let at = EVENTS.iter().position(|event| *event == name);
        self.events[at.expect("every event is in the list")] += 1;
    }

    /// Fails if anything was never met, or if fewer histories were played.
    pub(super) fn assert_complete(&self, histories: u32) {
        assert!(self.histories >= histories, "too few:\n{self}");
        let cells = self.cells.as_flattened();
        assert!(
            cells.iter().all(|count| *count > 0),
            "a cell was never met:\n{self}"
        );
        assert!(
            self.events.iter().all(|count| *count > 0),
            "never met:\n{self}"
        );
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {} histories, {} steps", self.histories, self.steps)?;
        for held in Mode::ALL {
            for asked in Mode::ALL {
                let count = self.cells[held as usize][asked as usize];
                writeln!(f, "  {count:>6} {held} held, {asked} asked")?;
            }
        }
        for (event, count) in EVENTS.iter().zip(self.events) {
            writeln!(f, "  {count:>6} {event}")?;
        }
        Ok(())
    }
}
