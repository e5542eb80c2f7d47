//! Lists the kinds of work that are known.

use tenure::Result;
use tenure_api::op::{Kinds, Known, Ls};
use tenure_work::policy::{self, Needs};

use crate::{Caller, Handle, Service};

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
