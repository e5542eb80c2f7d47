//! PostgreSQL's own locks, which other programs take, too.
//!
//! | file | what it holds |
//! |---|---|
//! | here | the one connection to them; who holds and who waits |
//! | `run` | takes one for a command |
//! | `held` | the lock that a command runs under: when that is lost, and how it is released |
//! | `around` | the locks that are held around a call |

mod around;
mod held;
mod run;

use std::time::Duration;

use tenure::{Error, Resource, Result};
use tenure_api::advisory::{Entry, Locks, Ls};
use tenure_postgres::advisory::{AdvisoryLocks, Settings};

use crate::{Caller, Handle, Service, opening};

pub use around::OuterLock;
pub use held::AdvisoryLock;
pub use run::{AdvisoryRun, UnderAdvisoryLock};

/// The longest wait for a server when only looking, and for an answer.
const SERVER_WAIT: Duration = Duration::from_secs(5);

impl Service {
    /// Opens the advisory locks with one connection. Waits for a server that is away; a
    /// cancellation ends a wait for a resource.
    async fn advisory_locks(
        &self,
        wait: Duration,
        resource: Option<&Resource>,
        caller: &Caller,
    ) -> Result<AdvisoryLocks> {
        let (url, shown) = (&self.located().url, self.shown_store());
        if !self.is_on_server() {
            let why = &self.located().why;
            return Err(Error::configuration(
                format!("{shown} has no advisory locks ({why}): they are PostgreSQL's"),
                "name a database, such as postgres://user@host/database",
            ));
        }
        let settings = Settings::default()
            .with_pool(1)
            .with_overflow(0)
            .with_wait(SERVER_WAIT)
            .with_open(wait);
        let opening = AdvisoryLocks::open(url, settings);
        let opened = opening::open(opening, &shown, resource, caller).await;
        opened.map_err(|error| match error {
            Error::BadInput(problem) => Error::configuration(
                format!("bad store: {problem}"),
                "an address is like postgres://user:password@host:5432/database",
            ),
            error => error,
        })
    }
}

impl Handle<Ls> for Service {
    async fn handle(&self, _: Ls, caller: &Caller) -> Result<Locks> {
        let locks = self.advisory_locks(SERVER_WAIT, None, caller).await?;
        let listed = locks.list().await?;
        let entries = listed.locks.into_iter().map(|lock| Entry {
            id: lock.entity_id,
            lock,
        });
        Ok(Locks {
            locks: entries.collect(),
            total: listed.total,
            next: None,
        })
    }
}
