//! A scenario: where it starts, what a process does, and what may be seen when.

use super::site::{Process, Site};
use super::world::{Allowed, World};
use crate::disk::simulated::{Leftovers, State};

/// What a process does to documents, step by step.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) site: Site,
    pub(super) start: State,
    pub(super) steps: Vec<Step>,
    /// What may be seen before the first step ended.
    pub(super) at_first: Allowed,
    /// Whether anything here looks at temporary files.
    pub(super) leftovers: Leftovers,
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
            leftovers: Leftovers::Ignore,
        }
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
