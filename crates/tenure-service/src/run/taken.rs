//! The leases that a command runs under: its own, and those that are held around it.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Guard, Keeper, LockSet, Options, Result, Session, SessionOptions};

use super::at_least::{self, Kept};
use super::held::release;
use crate::around::{Ancestors, Outer, Plan};
use crate::waiting::{Wait, wait};
use crate::{Caller, Limit, Observer};

/// The request of a run for its locks and its slot.
pub(super) struct TakenRequest<'a> {
    /// The command line that people see.
    pub(super) command: &'a str,
    /// The limit of the wait for everything together.
    pub(super) limit: Limit,
    /// The time for which others are kept out from now on, if the caller asks for one.
    pub(super) at_least: Option<Duration>,
    /// The options of the request.
    pub(super) options: Options,
    pub(super) caller: &'a Caller,
}

impl TakenRequest<'_> {
    pub(super) fn session(&self) -> SessionOptions {
        self.caller.session().with_command(self.command)
    }
}

/// The leases of one store: acquired, or held already.
#[derive(Default)]
pub(super) struct Taken {
    /// The session that holds what was taken; `None` if all of it was held already.
    pub(super) session: Option<Session>,
    /// The locks that were acquired.
    pub(super) guards: Vec<Guard>,
    /// The leases around the call that the command runs under.
    pub(super) under: Vec<Outer>,
    /// The holds that keep others out after the run, too.
    pub(super) kept: Option<Kept>,
}

impl Taken {
    /// Gives back everything, last first: no command was started.
    pub(super) async fn give_back(self, observer: &Arc<dyn Observer>) {
        drop(release(self.guards, observer).await);
        if let Some(kept) = self.kept {
            kept.give_back(observer).await;
        }
    }

    /// Returns a value that took nothing and runs under these leases.
    pub(super) fn under(under: Vec<Outer>) -> Self {
        Self {
            under,
            ..Self::default()
        }
    }

    /// Returns the leases that were acquired.
    pub(super) fn own(&self) -> Vec<Outer> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let store = session.keeper().url();
        let own = self.guards.iter().map(|guard| Outer {
            lease: guard.lease(),
            store: store.to_owned(),
        });
        own.collect()
    }
}

/// Takes all the locks; or with `reuse` only those that are not held around the call. They are
/// taken in the session that has a place in the pool, if there is one.
pub(super) async fn locks(
    keeper: &Keeper,
    pool: Option<Session>,
    wanted: &LockSet,
    reuse: bool,
    ancestors: &Ancestors,
    request: &TakenRequest<'_>,
) -> Result<Taken> {
    let plan = if reuse {
        ancestors.reuse(wanted, keeper)?
    } else {
        Plan::take_all(wanted.clone())
    };
    let session = request.session().with_ancestors(ancestors.held());
    let session = pool.unwrap_or_else(|| keeper.session(session));
    let mut taken = at_least::acquire(session, &plan.missing, request).await?;
    let store = keeper.url();
    let reused = plan.reused.into_iter().map(|lease| Outer {
        lease,
        store: store.to_owned(),
    });
    taken.under = reused.collect();
    Ok(taken)
}

/// Acquires a set, all or none.
pub(super) async fn acquire(
    session: Session,
    set: &LockSet,
    options: &Options,
    request: &TakenRequest<'_>,
) -> Result<Taken> {
    let guards = match set.iter().len() {
        0 => Vec::new(),
        _ => {
            let about = Wait {
                session: &session,
                set,
                limit: request.limit.whole(),
                slots: options.capacity,
                own: None,
            };
            wait(session.acquire_many(set, options), about, request.caller).await?
        }
    };
    Ok(Taken {
        session: Some(session),
        guards,
        ..Taken::default()
    })
}
