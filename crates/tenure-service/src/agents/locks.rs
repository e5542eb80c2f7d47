//! The lock of an agent: an advisory lock of PostgreSQL, which other programs take, too, or else a
//! lock of the keeper.

use std::time::Duration;

use tenure::patterns::{EntityGuard, EntityLocks};
use tenure::{Error, Guard, KeeperLocks, Result, Session, Token};
use tenure_postgres::advisory::{self, AdvisoryLocks, Namespace, NamespaceLocks};

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
    /// Returns the advisory locks of the store if it has them, else those of the keeper.
    pub fn of(session: &'a Session, locks: Option<AdvisoryLocks>) -> Self {
        match locks {
            Some(locks) => AgentLocks::Advisory(locks.of(Namespace::AGENT)),
            None => AgentLocks::Keeper(session.numbered("agent")),
        }
    }
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
