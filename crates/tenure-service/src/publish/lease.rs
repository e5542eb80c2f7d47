//! The lease that a publish works under: its own, or one that is held around the call.

use tenure::{Guard, Keeper, Lease, LockSet, Mode, Options, Resource, Result, SessionOptions};

use crate::around::Ancestors;
use crate::waiting::{Wait, wait};
use crate::{Caller, Limit};

pub(super) enum PublishLease {
    Own(Box<Guard>),
    Outer(Box<Lease>),
}

impl PublishLease {
    /// Takes the lease, unless one is held around the call.
    pub(super) async fn acquire(
        keeper: &Keeper,
        session: SessionOptions,
        resource: &Resource,
        purpose: &str,
        limit: Limit,
        caller: &Caller,
    ) -> Result<Self> {
        let ancestors = Ancestors::proved(caller.around().clone(), Some(keeper), None).await?;
        let wanted = [(resource.clone(), Mode::Write)];
        let wanted = LockSet::new(&keeper.settings().ranking, wanted);
        let mut plan = ancestors.reuse(&wanted, keeper)?;
        if let Some(lease) = plan.reused.pop() {
            return Ok(PublishLease::Outer(Box::new(lease)));
        }
        let session = session.with_ancestors(ancestors.held());
        let session = keeper.session(session);
        let options = Options::default()
            .with_wait(limit.left())
            .with_purpose(purpose);
        let about = Wait {
            session: &session,
            set: &wanted,
            limit: limit.whole(),
            slots: None,
            own: None,
        };
        let asking = session.acquire(resource, Mode::Write, &options);
        let guard = wait(asking, about, caller).await;
        let guard = guard.map_err(|error| limit.whole_in(error))?;
        Ok(PublishLease::Own(Box::new(guard)))
    }

    pub(super) fn lease(&self) -> Lease {
        match self {
            PublishLease::Own(guard) => guard.lease(),
            PublishLease::Outer(lease) => (**lease).clone(),
        }
    }

    pub(super) async fn release(self, caller: &Caller) {
        if let PublishLease::Own(guard) = self
            && let Err(failed) = guard.release().await
        {
            caller.observer().word(&failed.to_string());
        }
    }
}
