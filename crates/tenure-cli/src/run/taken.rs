//! The leases that the command runs under: its own, and those of outer `run`s.

use std::time::Duration;

use tenure::{Guard, LockSet, Options, Owner, Result, Session};
use tenure_run::Signals;

use crate::waiting::{Wait, wait};
use tenure_service::around::Outer;

/// The request of a `run` for its locks and its slot.
pub struct RunRequest {
    /// The owner.
    pub owner: Owner,
    /// The command line that people see.
    pub command: String,
    /// The whole wait, as people are told.
    pub whole: Duration,
    /// The options of the request.
    pub options: Options,
}

/// The leases of one store: acquired, or held already.
#[derive(Default)]
pub struct Taken {
    /// The session that holds what was taken; `None` if all of it was held already.
    pub session: Option<Session>,
    /// The locks that were acquired.
    pub guards: Vec<Guard>,
    /// The leases of outer `run`s that the command runs under.
    pub under: Vec<Outer>,
}

impl Taken {
    /// Returns a value that took nothing and runs under these leases.
    pub fn under(under: Vec<Outer>) -> Self {
        Self {
            under,
            ..Self::default()
        }
    }

    /// Returns the leases that this `run` took itself.
    pub fn own(&self) -> Vec<Outer> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let store = session.keeper().store().url();
        let own = self.guards.iter().map(|guard| Outer {
            lease: guard.lease(),
            store: store.to_owned(),
        });
        own.collect()
    }
}

/// Acquires a set, all or none, and reports the wait to people.
pub async fn acquire(
    session: Session,
    set: &LockSet,
    options: &Options,
    limit: Duration,
    signals: &mut Signals,
) -> Result<Taken> {
    let guards = match set.iter().len() {
        0 => Vec::new(),
        _ => {
            let about = Wait {
                session: &session,
                set,
                limit,
                slots: options.capacity,
                own: None,
            };
            wait(session.acquire_many(set, options), about, signals).await?
        }
    };
    Ok(Taken {
        session: Some(session),
        guards,
        under: Vec::new(),
    })
}
