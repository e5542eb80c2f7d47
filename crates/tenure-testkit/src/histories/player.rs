//! Plays a history on a store and compares every answer with the model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure::{Lease, Mode, Token};

use super::model::{Model, Outcome, RESOURCES, SESSIONS, Waiter, Want};
use super::step::{Step, What, Who};
use super::tally::Tally;
use crate::Fixture;
use crate::agent::words::{Answer, Command, Failure, Kind, Notes};
use crate::agent::{Agent, LONG_WAIT, Pending, resource};
use crate::stage::{Placement, Stage, until};

/// The wait for a lock that will not be granted.
const MOMENT: Duration = Duration::from_millis(2);

type Played = Result<(), String>;

/// A store and the agents that play on it, for many histories.
pub(super) struct Players<'a> {
    // The agents are dropped before the stage, so that they end before the store does.
    agents: Vec<Agent>,
    /// The request that the session of each agent waits for.
    pending: Vec<Option<Pending>>,
    /// The highest token seen of each resource.
    tokens: [Token; RESOURCES.len()],
    stage: Stage<'a>,
}

impl<'a> Players<'a> {
    pub(super) fn new(fixture: &'a dyn Fixture) -> Self {
        let stage = Stage::new(fixture);
        Self {
            agents: (0..SESSIONS).map(|who| agent(&stage, who)).collect(),
            pending: vec![None; SESSIONS],
            tokens: [Token::NONE; RESOURCES.len()],
            stage,
        }
    }

    /// Plays a whole history; afterwards nothing is held.
    pub(super) fn play(
        &mut self,
        mut model: Model,
        steps: &[Step],
        seen: Option<&AtomicUsize>,
        tally: &mut Tally,
    ) -> Played {
        for (number, step) in steps.iter().enumerate() {
            if let Some(seen) = seen {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            let before = model.clone();
            model = model.after(step);
            let played = self.step(step, &model).and_then(|()| self.others(&model));
            played.map_err(|problem| {
                format!("step {number}, {step:?}: {problem}\nbefore: {before:?}\nafter: {model:?}")
            })?;
            tally.count(&before, step, &model);
        }
        self.compare_list(&model)?;
        for agent in &mut self.agents {
            agent.reopen();
        }
        self.pending.fill(None);
        self.stage.assert_idle();
        tally.history();
        Ok(())
    }

    fn step(&mut self, step: &Step, model: &Model) -> Played {
        // The wait is long if the lock will be granted, and a moment if it will not.
        let wait = match model.outcome {
            Outcome::TimesOut => MOMENT,
            _ => LONG_WAIT,
        };
        let name = |what: What| resource(RESOURCES[what]);
        match step {
            Step::Try(who, what, mode) => {
                let (resource, mode) = (name(*what), *mode);
                self.ask(
                    *who,
                    Command::Try { resource, mode },
                    &[(*what, mode)],
                    model,
                )
            }
            Step::TryMany(who, items) => {
                let named = items
                    .iter()
                    .map(|(what, mode)| (name(*what), *mode))
                    .collect();
                self.ask(*who, Command::TryMany { items: named }, items, model)
            }
            Step::Acquire(who, what, mode) => {
                let command = acquire(*what, *mode, wait);
                self.ask(*who, command, &[(*what, *mode)], model)
            }
            Step::Wait(who, what, mode) => {
                let pending = self.agents[*who].send(acquire(*what, *mode, LONG_WAIT));
                self.pending[*who] = Some(pending);
                Ok(())
            }
            Step::TryUpgrade(who, what) => {
                let resource = name(*what);
                let items = [(*what, Mode::Write)];
                self.ask(*who, Command::TryUpgrade { resource }, &items, model)
            }
            Step::Upgrade(who, what) => {
                let resource = name(*what);
                let items = [(*what, Mode::Write)];
                self.ask(*who, Command::Upgrade { resource, wait }, &items, model)
            }
            Step::WaitUpgrade(who, what) => {
                let (resource, wait) = (name(*what), LONG_WAIT);
                let pending = self.agents[*who].send(Command::Upgrade { resource, wait });
                self.pending[*who] = Some(pending);
                Ok(())
            }
            Step::Downgrade(who, what) => {
                let resource = name(*what);
                let items = [(*what, Mode::Upgradeable)];
                self.ask(*who, Command::Downgrade { resource }, &items, model)
            }
            Step::Release(who, what) => {
                let resource = name(*what);
                self.ask(*who, Command::Release { resource }, &[], model)
            }
            Step::Cancel(who) => {
                let pending = self.pending[*who].take().expect("it waits");
                let cancelled = self.agents[*who].cancel(pending);
                require(cancelled, || "it was done before it was dropped".into())
            }
            Step::Crash(who) => {
                self.agents[*who].crash();
                self.stage.outlive_the_dead();
                self.pending[*who] = None;
                self.agents[*who] = agent(&self.stage, *who);
                Ok(())
            }
            Step::List => self.compare_list(model),
        }
    }

    fn ask(&mut self, who: Who, command: Command, items: &[(What, Mode)], model: &Model) -> Played {
        let answer = self.agents[who].ask(command);
        let named = |failure: &Failure, kind: Kind, what: What| {
            failure.kind == kind && failure.names.first() == Some(&resource(RESOURCES[what]))
        };
        let as_expected = match (&answer, &model.outcome) {
            (Answer::Granted { leases }, Outcome::Granted) => {
                return self.check_leases(who, leases, items);
            }
            (Answer::Upgraded { token }, Outcome::Granted) => {
                return self.check_token(items[0].0, Mode::Write, *token);
            }
            (Answer::Downgraded { lease }, Outcome::Done) => {
                return self.check_leases(who, std::slice::from_ref(&**lease), items);
            }
            (Answer::NotAcquired, Outcome::NotAcquired) | (Answer::Done, Outcome::Done) => true,
            (Answer::Failed(failure), Outcome::TimesOut) => {
                named(failure, Kind::Timeout, items[0].0)
            }
            (Answer::Failed(failure), Outcome::Reentry(what)) => {
                named(failure, Kind::Reentry, *what)
            }
            (Answer::Failed(failure), Outcome::Order(what, later)) => {
                let mut later = later.iter().map(|later| resource(RESOURCES[*later]));
                let held = failure.names.get(1);
                named(failure, Kind::Order, *what) && later.any(|later| held == Some(&later))
            }
            (Answer::Failed(failure), Outcome::Conflict) => failure.kind == Kind::Conflict,
            _ => false,
        };
        require(as_expected, || {
            format!("answered {answer:?}, expected {:?}", model.outcome)
        })
    }

    /// Checks that waiters which were granted have the lock, and that the others still wait.
    fn others(&mut self, model: &Model) -> Played {
        for Waiter { who, what, want } in &model.called {
            let pending = self.pending[*who].take().expect("who is called waited");
            match (want, self.agents[*who].answer(pending)) {
                (Want::Lease(mode), Answer::Granted { leases }) => {
                    self.check_leases(*who, &leases, &[(*what, *mode)])?;
                }
                (Want::Upgrade, Answer::Upgraded { token }) => {
                    self.check_token(*what, Mode::Write, token)?;
                }
                (_, answer) => return Err(format!("{who} was to be called: {answer:?}")),
            }
        }
        self.waits_on(model)
    }

    /// Checks that the waiters of the model are seen waiting, and that none of them is answered.
    fn waits_on(&mut self, model: &Model) -> Played {
        let mut early = None;
        for (what, name) in RESOURCES.iter().enumerate() {
            let line: Vec<Who> = model.line(what).map(|waiter| waiter.who).collect();
            if line.is_empty() {
                continue;
            }
            until("who must wait is seen waiting", || {
                let seen = self.stage.waiting(name) == line.len();
                // The answer is asked for after the look, so that a grant in between is not missed.
                for who in &line {
                    let pending = self.pending[*who].expect("who waits asked");
                    let answer = self.agents[*who].answered(pending);
                    early = early.take().or(answer.map(|answer| (*who, answer)));
                }
                seen || early.is_some()
            });
        }
        require(early.is_none(), || format!("it was to wait on: {early:?}"))
    }

    fn check_leases(&mut self, who: Who, leases: &[Lease], items: &[(What, Mode)]) -> Played {
        let same = leases.len() == items.len();
        require(same, || format!("{} leases", leases.len()))?;
        for (lease, (what, mode)) in leases.iter().zip(items) {
            let right = lease.resource.as_str() == RESOURCES[*what]
                && lease.mode == *mode
                && lease.session == *self.agents[who].session();
            require(right, || format!("not what was asked for: {lease:?}"))?;
            self.check_token(*what, *mode, lease.token)?;
        }
        Ok(())
    }

    /// Checks a token. An exclusive grant has a higher token than all before, any other grant the
    /// current one. The token may be above the last one drawn for the resource, never below.
    fn check_token(&mut self, what: What, mode: Mode, token: Token) -> Played {
        let last = self.tokens[what];
        let right = if mode == Mode::Write {
            token > last
        } else {
            token >= last
        };
        self.tokens[what] = token.max(last);
        require(right, || format!("token {token} of {mode} after {last}"))
    }

    fn compare_list(&self, model: &Model) -> Played {
        let name = |lease: Lease| {
            let of = self
                .agents
                .iter()
                .position(|agent| *agent.session() == lease.session);
            let pid = of.map(|of| self.agents[of].pid() == lease.pid);
            (lease.resource.to_string(), of, lease.mode, pid)
        };
        let mut listed: Vec<_> = self.stage.held().into_iter().map(name).collect();
        let expected = model.held.iter().map(|h| {
            (
                RESOURCES[h.what].to_owned(),
                Some(h.who),
                h.mode,
                Some(true),
            )
        });
        let mut expected: Vec<_> = expected.collect();
        listed.sort();
        expected.sort();
        require(listed == expected, || {
            format!("listed {listed:?}, expected {expected:?}")
        })
    }
}

/// Starts an agent. If the store allows it, all agents but the last are processes; the last is in
/// this one.
fn agent(stage: &Stage<'_>, who: Who) -> Agent {
    let placement = if who + 1 < SESSIONS {
        stage.apart()
    } else {
        Placement::Together
    };
    let [agent] = stage.agents(placement, [["ana", "bo", "cy", "di"][who]]);
    agent
}

fn acquire(what: What, mode: Mode, wait: Duration) -> Command {
    Command::Acquire {
        resource: resource(RESOURCES[what]),
        mode,
        wait,
        notes: Notes::default(),
    }
}

fn require(holds: bool, problem: impl FnOnce() -> String) -> Played {
    if holds { Ok(()) } else { Err(problem()) }
}
