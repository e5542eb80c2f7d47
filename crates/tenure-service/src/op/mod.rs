//! The operations on named kinds of work.

mod ls;
mod show;

use tenure::Result;
use tenure_work::policy::Policy;

use crate::Service;

impl Service {
    /// Returns the kinds of work that are known here.
    pub(crate) fn policy(&self) -> Result<Policy> {
        Policy::of(&self.located().config)
    }
}
