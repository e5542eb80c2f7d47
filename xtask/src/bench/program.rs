//! A program that uses a store as programs do: through the keeper, with one session.

use std::path::Path;

use anyhow::{Result, anyhow};
use tenure::{Guard, Keeper, Listing, Mode, Options, Owner, Query, Resource, Session};
use tenure::{SessionOptions, Settings};
use tokio::runtime::{Builder, Runtime};

/// An open store and a session in it.
pub struct Program {
    // The session is dropped before the runtime, which its end may need.
    session: Session,
    keeper: Keeper,
    runtime: Runtime,
}

impl Program {
    pub fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (keeper, session) = runtime.block_on(async {
            let keeper = Keeper::open_with(url, Settings::default()).await?;
            let owner = Owner::parse("bench@desk").map_err(|error| anyhow!("{error}"))?;
            let session = keeper.session(SessionOptions::new(owner));
            anyhow::Ok((keeper, session))
        })?;
        Ok(Self {
            session,
            keeper,
            runtime,
        })
    }

    /// Takes a write lock, waiting a minute for it.
    pub fn acquire(&self, resource: &Resource) -> Result<Guard> {
        let options = Options::default().with_wait(std::time::Duration::from_secs(60));
        let acquire = self.session.acquire(resource, Mode::Write, &options);
        Ok(self.runtime.block_on(acquire)?)
    }

    pub fn release(&self, guard: Guard) -> Result<()> {
        Ok(self.runtime.block_on(guard.release())?)
    }

    /// Takes and releases each lock in turn, without leaving the runtime.
    pub fn acquire_and_release_each(&self, resources: &[Resource]) -> Result<()> {
        self.runtime.block_on(async {
            let options = Options::default();
            for resource in resources {
                let acquire = self.session.acquire(resource, Mode::Write, &options);
                acquire.await?.release().await?;
            }
            Ok(())
        })
    }

    /// Returns one page of holders and waiters.
    pub fn list(&self, query: &Query) -> Result<Listing> {
        Ok(self.runtime.block_on(self.keeper.list(query))?)
    }
}

/// Returns the address of an embedded store.
pub fn sqlite(database: &Path) -> String {
    format!("sqlite:{}", database.display())
}

/// Returns names spread over the whole range of those that a full store holds; it holds none of
/// them.
pub fn free_names(count: u32) -> Result<Vec<Resource>> {
    let name = |number: u32| {
        let spread = u64::from(number) * 7919 % 1000;
        let name = format!("item:{spread:03}-free-{number}");
        name.parse().map_err(|error| anyhow!("{name}: {error}"))
    };
    (0..count).map(name).collect()
}
