//! A scenario: where it starts, what a process does, and what may be seen at each moment.

use super::run::{Power, run};
use super::{Allowed, Protocol};
use crate::disk::simulated::{Fault, Operation, State};

/// The steps of a process.
pub struct Scenario<P: Protocol> {
    pub(super) name: &'static str,
    pub protocol: P,
    pub start: State,
    pub(super) steps: Vec<Step<P>>,
    /// The states that may be seen before the first step ended.
    pub at_first: Allowed<P::World>,
    /// Returns true for a sync that something depends on in this scenario.
    pub sync_matters: fn(&Operation) -> bool,
    /// Returns true for an operation whose failure the protocol makes good.
    pub failure_matters: fn(&Operation) -> bool,
    /// The number of steps that belong to the protocol under trial. Later steps show what it left
    /// behind; their own syncs are the matter of other scenarios.
    pub(super) tried: usize,
}

/// One call, and what may be seen after it returned. While it runs, a process may see the worlds
/// before it, between, or after it.
pub(super) struct Step<P: Protocol> {
    pub(super) work: Work<P>,
    pub(super) between: Option<Allowed<P::World>>,
    pub(super) after: Allowed<P::World>,
}

type Work<P> = Box<dyn Fn(&<P as Protocol>::Process) -> tenure_core::Result<()>>;

impl<P: Protocol> Scenario<P> {
    /// Starts with a state in which these worlds are right.
    pub fn start(
        name: &'static str,
        protocol: P,
        start: State,
        at_first: Allowed<P::World>,
    ) -> Self {
        Self {
            name,
            protocol,
            start,
            steps: Vec::new(),
            at_first,
            sync_matters: |_| true,
            failure_matters: |_| true,
            tried: 0,
        }
    }

    /// Starts where another scenario was crashed: right after the first call for which `crash` is
    /// true. These worlds are right then.
    pub fn after_crash(
        name: &'static str,
        crashed: Self,
        crash: impl Fn(&Operation) -> bool,
        power: Power,
        at_first: Allowed<P::World>,
    ) -> Self {
        let run = run(&crashed, Fault::None);
        let operations = run.disk.operations();
        let done = operations
            .iter()
            .position(crash)
            .expect("it is crashed somewhere")
            + 1;
        let mut history = run.disk.history().into_iter();
        let state = history.find(|(by_then, _)| *by_then == done);
        let (_, state) = state.expect("the call changes something");
        let mut start = state.clone();
        if power == Power::Goes {
            // The last state that is told is the one in which everything reached the disk.
            state.after_power_loss(&mut |state| start = state);
        }
        Self {
            sync_matters: crashed.sync_matters,
            failure_matters: crashed.failure_matters,
            ..Self::start(name, crashed.protocol, start, at_first)
        }
    }

    /// Ends the protocol: the steps so far belong to it, later ones show what it left.
    pub fn and_then(mut self) -> Self {
        self.tried = self.steps.len();
        self
    }

    /// Adds a call after which these worlds are right.
    pub fn step(
        mut self,
        after: Allowed<P::World>,
        work: impl Fn(&P::Process) -> tenure_core::Result<()> + 'static,
    ) -> Self {
        self.steps.push(Step {
            work: Box::new(work),
            between: None,
            after,
        });
        self
    }

    /// Allows worlds that show the last step half done.
    pub fn by_way_of(mut self, between: Allowed<P::World>) -> Self {
        let last = self.steps.last_mut().expect("there is a step");
        last.between = Some(between);
        self
    }

    /// Returns the worlds that may be seen while a step runs.
    pub(super) fn during(&self, step: usize) -> Allowed<P::World> {
        let Step { between, after, .. } = &self.steps[step];
        let during = self.before(step).or(after);
        between
            .as_ref()
            .map_or(during.clone(), |between| during.or(between))
    }

    /// Returns the right worlds after the last step.
    pub fn last(&self) -> &Allowed<P::World> {
        self.steps.last().map_or(&self.at_first, |step| &step.after)
    }

    /// Returns the right worlds before a step.
    fn before(&self, step: usize) -> &Allowed<P::World> {
        match step.checked_sub(1) {
            Some(last) => &self.steps[last].after,
            None => &self.at_first,
        }
    }
}
