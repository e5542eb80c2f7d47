//! Shows which locks a kind of work needs, in the order in which they are taken.

use tenure::config::{LockPattern, Operation};
use tenure::{LockSet, Ranking, Resource, Result};
use tenure_api::op::{Kinds, NeededLock, Needing, Show};
use tenure_work::policy::{self, Needs, reason};

use crate::{Caller, Handle, Service};

impl Handle<Show> for Service {
    async fn handle(&self, request: Show, _: &Caller) -> Result<Kinds<Needing>> {
        let Show {
            operation: name,
            with,
        } = request;
        let policy = self.policy()?;
        let operation = &policy.find(&name)?.operation;
        let locks = match with.is_empty() && !Needs::of(operation).keys.is_empty() {
            true => patterns(operation),
            false => in_order(
                &self.located().config.ranking(),
                self.locks_of(&policy, &name, &with)?,
            ),
        };
        let needing = Needing {
            about: operation.about.clone(),
            operation: name,
            locks,
        };
        Ok(Kinds {
            operations: vec![needing],
            next: None,
        })
    }
}

/// Returns locks in the order in which they are taken.
fn in_order(ranking: &Ranking, locks: Vec<policy::NeededLock>) -> Vec<NeededLock> {
    let pairs = locks.iter().map(|lock| (lock.resource.clone(), lock.mode));
    let set = LockSet::new(ranking, pairs);
    let find = |resource: &Resource| locks.iter().find(|lock| lock.resource == *resource);
    let found = set.iter().filter_map(|(resource, _)| find(resource));
    let needed = found.map(|lock| NeededLock {
        resource: lock.resource.to_string(),
        mode: lock.mode,
        why: lock.why.clone(),
    });
    needed.collect()
}

/// Returns all locks that a kind of work may need, with the keys in them.
fn patterns(operation: &Operation) -> Vec<NeededLock> {
    let mut patterns = Vec::new();
    let mut add = |locks: &[LockPattern], when: &str, why: &str| {
        patterns.extend(locks.iter().map(|lock| NeededLock {
            resource: lock.name(),
            mode: lock.mode,
            why: format!("{when}{}", reason(lock, locks, why)),
        }));
    };
    add(&operation.locks, "", &operation.why);
    let count = operation.count.as_deref().unwrap_or_default();
    for above in &operation.above {
        let when = format!("instead, {count} over {}: ", above.more_than);
        add(&above.locks, &when, &above.why);
    }
    patterns
}
