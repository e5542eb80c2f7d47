//! The lock of an agent: PostgreSQL's own, which other programs meet, or else that of the keeper.

use std::time::Duration;

use tenure::patterns::{EntityGuard, EntityLocks};
use tenure::{Error, Guard, Keeper, KeeperLocks, Result, Session, Token};
use tenure_postgres::advisory::{self, AdvisoryLocks, Namespace, NamespaceLocks, Settings};

use crate::context::Context;
use crate::opening::open_and_tell;
use tenure_service::store_identity::is_server;

/// The locks of agents, by number.
pub enum AgentLocks<'a> {
    Advisory(NamespaceLocks),
    Keeper(KeeperLocks<'a>),
}

/// Holds the lock of an agent.
pub enum AgentGuard {
    Advisory(Box<advisory::Guard>),
    Keeper(Box<Guard>),
}

impl<'a> AgentLocks<'a> {
    /// Opens the locks of a store. A server is waited for as long as `wait`.
    pub async fn open(context: &Context, session: &'a Session, wait: Duration) -> Result<Self> {
        let url = &context.located.url;
        let locks = match is_server(url) {
            true => Some(AdvisoryLocks::open(url, advisory_settings(wait)).await?),
            false => None,
        };
        Ok(Self::of(session, locks))
    }

    /// Returns the locks that came with a store, or those of the keeper.
    pub fn of(session: &'a Session, locks: Option<AdvisoryLocks>) -> Self {
        match locks {
            Some(locks) => AgentLocks::Advisory(locks.of(Namespace::AGENT)),
            None => AgentLocks::Keeper(session.numbered("agent")),
        }
    }
}

/// Opens a store with the locks of a server, if it is one: with one connection for each.
pub async fn open_with_locks(
    context: &Context,
    settings: tenure::Settings,
    wait: Duration,
) -> Result<(Keeper, Option<AdvisoryLocks>)> {
    let url = &context.located.url;
    if !is_server(url) {
        return Ok((context.open(settings).await?, None));
    }
    let advisory = advisory_settings(wait);
    let opening = Keeper::open_with_locks(url, settings, &advisory);
    let (keeper, locks) = open_and_tell(opening, &context.shown()).await?;
    Ok((keeper, Some(locks)))
}

fn advisory_settings(wait: Duration) -> Settings {
    Settings::default()
        .with_pool(1)
        .with_overflow(0)
        .with_wait(wait)
        .with_open(wait)
}

impl EntityLocks for AgentLocks<'_> {
    type Guard = AgentGuard;

    async fn lock(&self, id: i32, wait: Duration) -> Result<AgentGuard> {
        Ok(match self {
            AgentLocks::Advisory(locks) => {
                AgentGuard::Advisory(Box::new(locks.lock(id, wait).await?))
            }
            AgentLocks::Keeper(locks) => AgentGuard::Keeper(Box::new(locks.lock(id, wait).await?)),
        })
    }

    async fn lock_or_skip(&self, id: i32) -> Result<Option<AgentGuard>> {
        Ok(match self {
            AgentLocks::Advisory(locks) => {
                let guard = locks.lock_or_skip(id).await?;
                guard.map(|guard| AgentGuard::Advisory(Box::new(guard)))
            }
            AgentLocks::Keeper(locks) => {
                let guard = locks.lock_or_skip(id).await?;
                guard.map(|guard| AgentGuard::Keeper(Box::new(guard)))
            }
        })
    }

    async fn scope<F: Future>(&self, work: F) -> F::Output {
        match self {
            AgentLocks::Advisory(locks) => locks.scope(work).await,
            AgentLocks::Keeper(locks) => locks.scope(work).await,
        }
    }
}

impl EntityGuard for AgentGuard {
    fn token(&self) -> Token {
        match self {
            AgentGuard::Advisory(guard) => guard.token(),
            AgentGuard::Keeper(guard) => EntityGuard::token(&**guard),
        }
    }

    async fn lost(&self) -> Error {
        match self {
            AgentGuard::Advisory(guard) => guard.lost().await,
            AgentGuard::Keeper(guard) => guard.lost().await,
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            AgentGuard::Advisory(guard) => guard.release().await,
            AgentGuard::Keeper(guard) => EntityGuard::release(*guard).await,
        }
    }
}
