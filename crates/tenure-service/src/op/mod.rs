//! The operations on named kinds of work.

mod show;

use tenure::Result;
use tenure_api::op::{Kinds, Known, Ls};
use tenure_work::policy::{self, NeededLock, Needs, Policy, Scope};

use crate::{Caller, Handle, Service, file_path};

impl Service {
    /// Returns the kinds of work that are known here.
    pub(crate) fn policy(&self) -> Result<Policy> {
        Policy::of(&self.located().config)
    }

    /// Returns the locks that a kind of work needs in one case. A relative path of a file counts
    /// from the directory of the call, as it does on a command line.
    pub(crate) fn locks_of(
        &self,
        policy: &Policy,
        name: &str,
        scope: &Scope,
    ) -> Result<Vec<NeededLock>> {
        let here = &self.environment().directory;
        let mut locks = policy.locks_of(name, scope)?;
        for lock in &mut locks {
            lock.resource = file_path::absolute(lock.resource.clone(), Some(here))?;
        }
        Ok(locks)
    }
}

impl Handle<Ls> for Service {
    async fn handle(&self, _: Ls, _: &Caller) -> Result<Kinds<Known>> {
        let policy = self.policy()?;
        let operations = policy.operations().map(|(name, known)| listed(name, known));
        Ok(Kinds {
            operations: operations.collect(),
            next: None,
        })
    }
}

fn listed(name: &str, known: &policy::Known) -> Known {
    let needs = Needs::of(&known.operation);
    Known {
        operation: name.to_owned(),
        about: known.operation.about.clone(),
        needs: needs.keys.into_iter().map(str::to_owned).collect(),
        count: needs.count.map(str::to_owned),
        from: known.from.clone(),
        needs_approval: known.operation.needs_approval,
    }
}
