//! Locks of a keeper on numbered things, for the patterns of [`tenure_core::patterns`].

use std::time::Duration;

use tenure_core::patterns::{EntityGuard, EntityLocks};
use tenure_core::{Error, Mode, Resource, Result, Token};

use crate::{Guard, Options, Session};

/// The locks `KIND:NUMBER` of a session, taken to write.
pub struct KeeperLocks<'a> {
    session: &'a Session,
    kind: &'static str,
}

impl Session {
    /// Returns the locks on things of a kind, by number.
    pub fn numbered(&self, kind: &'static str) -> KeeperLocks<'_> {
        KeeperLocks {
            session: self,
            kind,
        }
    }
}

impl KeeperLocks<'_> {
    fn resource(&self, id: i32) -> Result<Resource> {
        Resource::new(self.kind, id.to_string().as_bytes())
            .map_err(|error| Error::BadInput(error.to_string()))
    }
}

impl EntityLocks for KeeperLocks<'_> {
    type Guard = Guard;

    async fn lock(&self, id: i32, wait: Duration) -> Result<Guard> {
        let options = Options::default().with_wait(wait);
        let resource = self.resource(id)?;
        self.session.acquire(&resource, Mode::Write, &options).await
    }

    async fn lock_or_skip(&self, id: i32) -> Result<Option<Guard>> {
        let (resource, options) = (self.resource(id)?, Options::default());
        let lock = self.session.try_acquire(&resource, Mode::Write, &options);
        lock.await
    }
}

impl EntityGuard for Guard {
    fn token(&self) -> Token {
        Guard::token(self)
    }

    async fn lost(&self) -> Error {
        Guard::lost(self).await
    }

    async fn release(self) -> Result<()> {
        Guard::release(self).await.map_err(|failed| failed.source)
    }
}
