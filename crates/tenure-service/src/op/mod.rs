//! The operations on named kinds of work.

mod ls;
mod show;

use tenure::Result;
use tenure_work::policy::{NeededLock, Policy, Scope};

use crate::{Service, file_path};

impl Service {
    /// Returns the kinds of work that are known here.
    pub(crate) fn policy(&self) -> Result<Policy> {
        Policy::of(&self.located().config)
    }

    /// Returns the locks that a kind of work needs in one case. The path of a file counts from the
    /// directory of the call, as where a person names the file.
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
