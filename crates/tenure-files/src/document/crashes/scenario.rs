//! A scenario: where it starts, what a process does, and what may be seen when.

use super::run::{Power, run};
use super::site::{Process, Site};
use super::world::{Allowed, World};
use crate::disk::simulated::{Fault, Operation, State};

/// What a process does to documents, step by step.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) site: Site,
    pub(super) start: State,
    pub(super) steps: Vec<Step>,
    /// What may be seen before the first step ended.
    pub(super) at_first: Allowed,
    /// Whether the documents were written by a program that did not sync them.
    pub(super) not_synced: bool,
    /// How many steps are the protocol that is tried. Those after it show what it left behind, and
    /// their own syncs are the matter of other scenarios.
    pub(super) protocol: usize,
}

/// One call, and what may be seen after it returned. While it runs, that or what was before.
pub(super) struct Step {
    pub(super) work: Work,
    pub(super) after: Allowed,
}

type Work = Box<dyn Fn(&Process<'_>) -> tenure_core::Result<()>>;

impl Scenario {
    /// Starts with documents as in `world`, everything durable.
    pub(super) fn new(name: &'static str, documents: &[&str], world: World) -> Self {
        let site = Site::new(documents);
        Self {
            name,
            start: site.start(&world),
            site,
            steps: Vec::new(),
            at_first: Allowed::only(world),
            not_synced: false,
            protocol: 0,
        }
    }

    /// Starts with documents of one byte each, which their program did not sync: until someone
    /// does, a power loss may leave them empty or zero.
    pub(super) fn not_synced(name: &'static str, documents: &[&str], world: World) -> Self {
        let mut at_first = Allowed::only(world.clone());
        for document in 0..documents.len() {
            let lost = |text: &'static str| at_first.then(|world| world.with(document, text));
            at_first = at_first.or(&lost("")).or(&lost("\0"));
        }
        let mut scenario = Self::new(name, documents, world.clone());
        scenario.start = scenario.site.start_not_synced(&world);
        Self {
            at_first,
            not_synced: true,
            ..scenario
        }
    }

    /// Starts where another scenario was crashed: right after the call that is `crash`. Its
    /// documents are then as in `at_first`.
    pub(super) fn after_crash(
        name: &'static str,
        crashed: Scenario,
        crash: impl Fn(&Operation) -> bool,
        power: Power,
        at_first: Allowed,
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
            // The last state that is told is the one where everything got to the disk.
            state.after_power_loss(&mut |state| start = state);
        }
        Self {
            name,
            site: crashed.site,
            start,
            steps: Vec::new(),
            at_first,
            not_synced: false,
            protocol: 0,
        }
    }

    /// The steps so far are the protocol; what follows shows what it left.
    pub(super) fn and_then(mut self) -> Self {
        self.protocol = self.steps.len();
        self
    }

    /// Then some documents are written in one transaction.
    pub(super) fn write(self, changes: &[(usize, &'static str)], token: Option<u64>) -> Self {
        let own = changes.to_vec();
        let after = self.last().then(|world| {
            let mut world = world.clone();
            for (document, text) in &own {
                let seen = &mut world.documents[*document];
                seen.text = Some((*text).to_owned());
                seen.token = token.or(seen.token);
            }
            world
        });
        let own = changes.to_vec();
        self.step(after, move |process| process.write(&own, token))
    }

    /// Then something happens after which these worlds are right.
    pub(super) fn step(
        mut self,
        after: Allowed,
        work: impl Fn(&Process<'_>) -> tenure_core::Result<()> + 'static,
    ) -> Self {
        self.steps.push(Step {
            work: Box::new(work),
            after,
        });
        self
    }

    /// What is right after the last step.
    pub(super) fn last(&self) -> &Allowed {
        self.steps.last().map_or(&self.at_first, |step| &step.after)
    }

    /// What is right before a step.
    pub(super) fn before(&self, step: usize) -> &Allowed {
        match step.checked_sub(1) {
            Some(last) => &self.steps[last].after,
            None => &self.at_first,
        }
    }
}
