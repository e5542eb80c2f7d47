//! The oracle in the plainest terms: lists of holders and of waiters.
//!
//! Nothing here comes from the code under test: the matrix and the order are written out once more.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest_state_machine::ReferenceStateMachine;
use tenure::Mode;

use super::step::{Step, What, Who};

pub(super) const SESSIONS: usize = 4;
/// The resources in their order, which goes by the rank of the kind; names would reverse it.
pub(super) const RESOURCES: [&str; 3] = ["project:z", "map:m", "agent:a"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) who: Who,
    pub(super) what: What,
    pub(super) mode: Mode,
    pub(super) upgraded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Lease(Mode),
    Upgrade,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) who: Who,
    pub(super) what: What,
    pub(super) want: Want,
}

/// The answer that a step must get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Granted,
    NotAcquired,
    TimesOut,
    Waits,
    Reentry(What),
    /// The resource asked for, and every resource of the session that comes later.
    Order(What, Vec<What>),
    Conflict,
    Done,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) held: Vec<Held>,
    pub(super) waiting: Vec<Waiter>,
    /// The answer that the last step must have got.
    pub(super) outcome: Outcome,
    /// The waiters that the last step granted.
    pub(super) called: Vec<Waiter>,
}

pub(super) fn shares(held: Mode, asked: Mode) -> bool {
    use Mode::{Read, Upgradeable};
    matches!(
        (held, asked),
        (Read, Read) | (Read, Upgradeable) | (Upgradeable, Read)
    )
}

impl Model {
    pub(super) fn of(&self, who: Who, what: What) -> Option<&Held> {
        self.held
            .iter()
            .find(|held| (held.who, held.what) == (who, what))
    }

    pub(super) fn waiter(&self, who: Who) -> Option<&Waiter> {
        self.waiting.iter().find(|waiter| waiter.who == who)
    }

    pub(super) fn line(&self, what: What) -> impl Iterator<Item = &Waiter> {
        self.waiting
            .iter()
            .filter(move |waiter| waiter.what == what)
    }

    fn fits(&self, what: What, mode: Mode) -> bool {
        let mut there = self.held.iter().filter(|held| held.what == what);
        there.all(|held| shares(held.mode, mode))
    }

    fn alone(&self, who: Who, what: What) -> bool {
        let mut there = self.held.iter().filter(|held| held.what == what);
        there.all(|held| held.who == who)
    }

    /// Returns the resources that the session holds or awaits, and that must be taken after `what`.
    fn later(&self, who: Who, what: What) -> Vec<What> {
        let held = self.held.iter().map(|held| (held.who, held.what));
        let waiting = self.waiting.iter().map(|waiter| (waiter.who, waiter.what));
        let own = held.chain(waiting).filter(|(of, _)| *of == who);
        own.map(|(_, own)| own).filter(|own| *own > what).collect()
    }

    /// Returns the answer that a request for a set without a wait must get.
    pub(super) fn ask(&self, who: Who, items: &[(What, Mode)]) -> Outcome {
        let awaits = |what| self.waiter(who).is_some_and(|waiter| waiter.what == what);
        let own = |(what, _): &&(What, Mode)| self.of(who, *what).is_some() || awaits(*what);
        if let Some((what, _)) = items.iter().find(own) {
            return Outcome::Reentry(*what);
        }
        for (what, _) in items {
            let later = self.later(who, *what);
            if !later.is_empty() {
                return Outcome::Order(*what, later);
            }
        }
        // A session waits for one thing at a time, and no request overtakes a waiter.
        let free = |(what, mode): &(What, Mode)| {
            self.line(*what).next().is_none() && self.fits(*what, *mode)
        };
        if self.waiter(who).is_none() && items.iter().all(free) {
            Outcome::Granted
        } else {
            Outcome::NotAcquired
        }
    }

    fn ask_upgrade(&self, who: Who, what: What) -> Outcome {
        let later = self.later(who, what);
        match self.of(who, what) {
            Some(held) if held.mode == Mode::Upgradeable => {}
            _ => return Outcome::Conflict,
        }
        if !later.is_empty() {
            Outcome::Order(what, later)
        } else if self.waiter(who).is_none() && self.alone(who, what) {
            Outcome::Granted
        } else {
            Outcome::NotAcquired
        }
    }

    fn hold(&mut self, who: Who, what: What, mode: Mode) {
        self.held.push(Held {
            who,
            what,
            mode,
            upgraded: false,
        });
    }

    fn become_write(&mut self, who: Who, what: What) {
        for held in &mut self.held {
            if (held.who, held.what) == (who, what) {
                (held.mode, held.upgraded) = (Mode::Write, true);
            }
        }
    }

    /// Grants what waiters can have now: an upgrade first, and nothing else while it waits.
    fn move_up(&mut self) {
        for what in 0..RESOURCES.len() {
            let upgrade = self.line(what).find(|w| w.want == Want::Upgrade).cloned();
            if let Some(upgrade) = upgrade {
                if !self.alone(upgrade.who, what) {
                    continue;
                }
                self.become_write(upgrade.who, what);
                self.call(upgrade);
            }
            let first = self.line(what).next().cloned();
            if let Some(first) = first
                && let Want::Lease(mode) = first.want
                && self.fits(what, mode)
            {
                self.hold(first.who, what, mode);
                self.call(first);
            }
        }
    }

    fn call(&mut self, waiter: Waiter) {
        self.waiting.retain(|other| *other != waiter);
        self.called.push(waiter);
    }
}

/// The rules by which histories are made.
pub(super) struct Rules;

impl ReferenceStateMachine for Rules {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model {
            held: Vec::new(),
            waiting: Vec::new(),
            outcome: Outcome::Done,
            called: Vec::new(),
        })
        .boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Step> {
        let who = 0..SESSIONS;
        let what = 0..RESOURCES.len();
        let mode = select(Mode::ALL.to_vec());
        let one = (who.clone(), what.clone(), mode.clone());
        let several = proptest::collection::btree_map(what, mode, 2..=3);
        let mut steps = vec![
            (
                12,
                one.clone()
                    .prop_map(|(who, what, mode)| Step::Try(who, what, mode))
                    .boxed(),
            ),
            (
                6,
                one.prop_map(|(who, what, mode)| Step::Acquire(who, what, mode))
                    .boxed(),
            ),
            (
                4,
                (who, several)
                    .prop_map(|(who, set)| Step::TryMany(who, set.into_iter().collect()))
                    .boxed(),
            ),
            (2, Just(Step::List).boxed()),
        ];
        let mut add = |weight: u32, choices: &mut dyn Iterator<Item = Step>| {
            let choices: Vec<Step> = choices
                .filter(|step| Self::preconditions(model, step))
                .collect();
            if !choices.is_empty() {
                steps.push((weight, select(choices).boxed()));
            }
        };
        let sessions = || 0..SESSIONS;
        let idle = sessions().filter(|who| model.waiter(*who).is_none());
        let pairs = idle.flat_map(|who| (0..RESOURCES.len()).map(move |what| (who, what)));
        let triples = pairs.flat_map(|(who, what)| Mode::ALL.map(|mode| (who, what, mode)));
        add(
            12,
            &mut triples.map(|(who, what, mode)| Step::Wait(who, what, mode)),
        );
        let held = || model.held.iter().map(|held| (held.who, held.what));
        add(
            8,
            &mut held().map(|(who, what)| Step::WaitUpgrade(who, what)),
        );
        add(12, &mut held().map(|(who, what)| Step::Release(who, what)));
        // Most of these upgrades and downgrades can be had; the others are conflicts, soon told.
        let of_mode = |mode| {
            let of_mode = model.held.iter().filter(move |held| held.mode == mode);
            of_mode.map(|held| (held.who, held.what))
        };
        let upgradeable = || of_mode(Mode::Upgradeable);
        add(
            6,
            &mut upgradeable().map(|(who, what)| Step::TryUpgrade(who, what)),
        );
        add(
            4,
            &mut upgradeable().map(|(who, what)| Step::Upgrade(who, what)),
        );
        add(
            4,
            &mut of_mode(Mode::Write).map(|(who, what)| Step::Downgrade(who, what)),
        );
        add(
            1,
            &mut held().map(|(who, what)| Step::TryUpgrade(who, what)),
        );
        add(1, &mut held().map(|(who, what)| Step::Upgrade(who, what)));
        add(1, &mut held().map(|(who, what)| Step::Downgrade(who, what)));
        add(4, &mut sessions().map(Step::Cancel));
        // A new process costs more than all other steps of a history together.
        add(1, &mut sessions().map(Step::Crash));
        Union::new_weighted(steps).boxed()
    }

    fn preconditions(model: &Model, step: &Step) -> bool {
        let upgrading = |who, what| {
            let waiter = model.waiter(who);
            waiter.is_some_and(|waiter| waiter.what == what && waiter.want == Want::Upgrade)
        };
        // An agent cannot use a guard whose upgrade is under way.
        let in_hand = |who, what| model.of(who, what).is_some() && !upgrading(who, what);
        match step {
            Step::Wait(who, what, mode) => {
                let in_line = model.line(*what).any(|waiter| waiter.want != Want::Upgrade);
                let refused = model.ask(*who, &[(*what, *mode)]) == Outcome::NotAcquired;
                refused && model.waiter(*who).is_none() && !in_line
            }
            Step::WaitUpgrade(who, what) => {
                let refused = model.ask_upgrade(*who, *what) == Outcome::NotAcquired;
                refused && model.waiter(*who).is_none()
            }
            Step::TryUpgrade(who, what)
            | Step::Upgrade(who, what)
            | Step::Downgrade(who, what)
            | Step::Release(who, what) => in_hand(*who, *what),
            Step::Cancel(who) => model.waiter(*who).is_some(),
            Step::Crash(who) => {
                let holds = model.held.iter().any(|held| held.who == *who);
                holds || model.waiter(*who).is_some()
            }
            Step::Try(..) | Step::TryMany(..) | Step::Acquire(..) | Step::List => true,
        }
    }

    fn apply(mut model: Model, step: &Step) -> Model {
        model.called.clear();
        let times_out = |outcome| match outcome {
            Outcome::NotAcquired => Outcome::TimesOut,
            other => other,
        };
        let not_acquired = |outcome| match outcome {
            Outcome::Reentry(_) => Outcome::NotAcquired,
            other => other,
        };
        model.outcome = match step {
            Step::Try(who, what, mode) => not_acquired(model.ask(*who, &[(*what, *mode)])),
            Step::TryMany(who, items) => not_acquired(model.ask(*who, items)),
            Step::Acquire(who, what, mode) => times_out(model.ask(*who, &[(*what, *mode)])),
            Step::TryUpgrade(who, what) => model.ask_upgrade(*who, *what),
            Step::Upgrade(who, what) => times_out(model.ask_upgrade(*who, *what)),
            Step::Wait(..) | Step::WaitUpgrade(..) => Outcome::Waits,
            Step::Downgrade(who, what) => {
                let upgraded = model.of(*who, *what).is_some_and(|held| held.upgraded);
                if upgraded {
                    Outcome::Done
                } else {
                    Outcome::Conflict
                }
            }
            Step::Release(..) | Step::Cancel(_) | Step::Crash(_) | Step::List => Outcome::Done,
        };
        let granted = model.outcome == Outcome::Granted;
        match step {
            Step::Try(who, what, mode) | Step::Acquire(who, what, mode) if granted => {
                model.hold(*who, *what, *mode);
            }
            Step::TryMany(who, items) if granted => {
                for (what, mode) in items {
                    model.hold(*who, *what, *mode);
                }
            }
            Step::TryUpgrade(who, what) | Step::Upgrade(who, what) if granted => {
                model.become_write(*who, *what);
            }
            Step::Wait(who, what, mode) => model.waiting.push(Waiter {
                who: *who,
                what: *what,
                want: Want::Lease(*mode),
            }),
            Step::WaitUpgrade(who, what) => model.waiting.push(Waiter {
                who: *who,
                what: *what,
                want: Want::Upgrade,
            }),
            Step::Downgrade(who, what) if model.outcome == Outcome::Done => {
                for held in &mut model.held {
                    if (held.who, held.what) == (*who, *what) {
                        (held.mode, held.upgraded) = (Mode::Upgradeable, false);
                    }
                }
            }
            Step::Release(who, what) => {
                model
                    .held
                    .retain(|held| (held.who, held.what) != (*who, *what));
            }
            Step::Cancel(who) => model.waiting.retain(|waiter| waiter.who != *who),
            Step::Crash(who) => {
                model.held.retain(|held| held.who != *who);
                model.waiting.retain(|waiter| waiter.who != *who);
            }
            _ => {}
        }
        model.move_up();
        model
    }
}
