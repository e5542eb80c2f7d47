//! Scopes: all calls inside of one belong to one session, which need not be handed on.
//!
//! A session never waits for a lock of its own. Code that is called under a lock, many calls deep,
//! has no session at hand; in a scope it finds its caller's session in the task. Calls outside of a
//! scope each have a session of their own and simply contend, as calls of `join!` should.
//!
//! # Limitations
//!
//! A task that is spawned inside of a scope does not belong to it, and contends.

use std::future::Future;
use std::sync::Arc;

use super::service::{AdvisoryLocks, Session};

tokio::task_local! {
    /// The sessions of the scopes around this call, one for each service.
    static SESSIONS: Vec<Session>;
}

impl AdvisoryLocks {
    /// Runs work in a scope: all locks of this service that the work takes belong to one session. A
    /// scope inside of another one shares the other's session.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        let mut sessions = SESSIONS.try_with(Vec::clone).unwrap_or_default();
        if self.find(&sessions).is_none() {
            sessions.push(self.session());
        }
        SESSIONS.scope(sessions, work).await
    }

    /// Returns the session of the scope around this call, or a new one.
    pub(super) fn session_of_scope(&self) -> Session {
        let of_scope = SESSIONS.try_with(|sessions| self.find(sessions));
        of_scope.ok().flatten().unwrap_or_else(|| self.session())
    }

    fn find(&self, sessions: &[Session]) -> Option<Session> {
        let is_ours = |session: &&Session| Arc::ptr_eq(&session.locks.pool, &self.pool);
        sessions.iter().find(is_ours).cloned()
    }
}
