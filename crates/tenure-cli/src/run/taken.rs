//! What the command runs under: leases of its own, and those of outer `run`s.

use std::time::Duration;

use tenure::{Error, Guard, LockSet, Options, Owner, Result, Session};
use tokio::time::Instant;

use crate::nesting::Outer;
use crate::signals::Signals;
use crate::waiting::{Wait, wait};

/// How locks and slot are asked for.
pub struct Asked {
    /// On whose behalf.
    pub owner: Owner,
    /// The command line that people see.
    pub command: String,
    /// How long to wait in all, as people are told.
    pub whole: Duration,
    /// The rest.
    pub options: Options,
}

/// What was taken in one store, or is held already.
#[derive(Default)]
pub struct Taken {
    /// Who holds what was taken; None if all of it was there already.
    pub session: Option<Session>,
    /// What was taken.
    pub guards: Vec<Guard>,
    /// What outer `run`s hold and the command runs under.
    pub under: Vec<Outer>,
}

impl Taken {
    /// Nothing needs to be taken.
    pub fn under(under: Vec<Outer>) -> Self {
        Self {
            under,
            ..Self::default()
        }
    }

    /// The leases of its own.
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

/// Takes a set, all or none, and tells people while it waits.
pub async fn take(
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

/// One time limit for the slot and the locks after it.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    began: Instant,
    whole: Duration,
}

impl Limit {
    /// Begins to run now.
    pub fn new(whole: Duration) -> Self {
        let began = Instant::now();
        Self { began, whole }
    }

    /// As it was asked for.
    pub fn whole(&self) -> Duration {
        self.whole
    }

    /// What is left of it. Whoever waits at all still waits a little: not waiting is another
    /// answer than having waited in vain.
    pub fn left(&self) -> Duration {
        let least = self.whole.min(Duration::from_millis(1));
        self.whole.saturating_sub(self.began.elapsed()).max(least)
    }

    /// Makes an error speak of the whole limit, as it was asked for.
    pub fn whole_in(&self, mut error: Error) -> Error {
        if let Error::Timeout { waited, limit, .. } = &mut error {
            *waited = self.began.elapsed();
            *limit = self.whole;
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_ran_out_still_waits_unless_nothing_was_to_be_waited() {
        assert_eq!(Limit::new(Duration::ZERO).left(), Duration::ZERO);
        let short = Limit::new(Duration::from_nanos(1));
        assert_eq!(short.left(), Duration::from_nanos(1));
        let long = Limit::new(Duration::from_secs(60)).left();
        assert!(long > Duration::from_secs(50) && long <= Duration::from_secs(60));
    }
}
