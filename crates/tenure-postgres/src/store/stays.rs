//! The sessions of this process that others count on to be there although they wait for nothing: those that ask under a
//! key, and those that claim a lease.
//!
//! What they wrote is theirs while their process is seen (`ear`). So it is seen from before they write it until
//! their session ends. A crash in between ends it as well: nobody writes the row of the process any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::{Result, SessionId};

use super::ear::{Ear, Stay};

/// Who has to be seen.
#[derive(Default)]
pub(super) struct Stays {
    sessions: Mutex<HashMap<SessionId, Stay>>,
}

impl Stays {
    /// Has the process be seen until the session ends. When this returns it was.
    pub(super) async fn keep(&self, ear: &Ear, session: &SessionId) -> Result<()> {
        // Asked even if it stays already: it may have been deaf for a while.
        let stay = ear.stay().await?;
        self.sessions().entry(session.clone()).or_insert(stay);
        Ok(())
    }

    /// Ends it. Whether there was anything to end.
    pub(super) fn end(&self, session: &SessionId) -> bool {
        self.sessions().remove(session).is_some()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Stay>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
