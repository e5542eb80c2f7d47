//! The sessions of this process that others rely on although they wait for nothing: sessions that
//! ask under a key, and sessions that claim a lease.
//!
//! Their rows count while the row of their process is fresh (`listener`), so that row is kept fresh
//! from before they write until their session ends. A crash in between ends their presence as well,
//! as the row is no longer written.

use std::collections::HashMap;
use std::sync::Mutex;

use tenure_core::internal::lock;
use tenure_core::{Result, SessionId};

use super::listener::{Listener, Presence};

/// The sessions for which the row of this process is kept fresh.
#[derive(Default)]
pub(super) struct Presences {
    sessions: Mutex<HashMap<SessionId, Presence>>,
}

impl Presences {
    /// Keeps the row of the process fresh until the session ends. The row is fresh when this
    /// returns.
    pub(super) async fn keep(&self, listener: &Listener, session: &SessionId) -> Result<()> {
        // This is done even for a known session: the listener may have been disconnected for a
        // while.
        let presence = listener.show_presence().await?;
        lock(&self.sessions)
            .entry(session.clone())
            .or_insert(presence);
        Ok(())
    }

    /// Ends the presence of a session. Returns true if it had one.
    pub(super) fn end(&self, session: &SessionId) -> bool {
        lock(&self.sessions).remove(session).is_some()
    }
}
