//! Pending clean-up: leases and waits that a drop could not end because the database was busy for
//! too long.
//!
//! A drop cannot wait, and the process may never call the store again. A thread therefore tries
//! until the clean-up is done, or until the store is gone: then the session ends, and all it holds
//! with it.
//!
//! # A new request before the clean-up
//!
//! A lease id may be asked for again before its clean-up is done. The clean-up must not end what
//! the second request got. A new request therefore first cancels the clean-up or does it, and only
//! then makes its step. The clean-up checks inside its step that it is still pending. The mutex of
//! the connection is held during a step, so one of the two comes first.

use std::sync::{Mutex, Weak};
use std::thread;
use std::time::Duration;

use tenure_core::internal::lock;
use tenure_core::request::Awaited;
use tenure_core::{LeaseId, Result};

use super::inner::Inner;
use super::release;
use super::step::Step;
use crate::connection::Durability;

/// The pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// One thing that a drop could not end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cleanup {
    /// A lease that is held.
    Lease(LeaseId),
    /// A place in line, or what was granted to it since.
    Awaited(Awaited),
}

/// All clean-up that is pending.
#[derive(Debug, Default)]
pub(super) struct PendingCleanup {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<Cleanup>,
    /// True while a thread works on it.
    running: bool,
}

impl PendingCleanup {
    fn is_pending(&self, cleanup: &Cleanup) -> bool {
        lock(&self.state).pending.contains(cleanup)
    }

    fn upgrade_of(&self, lease: &LeaseId) -> Option<Cleanup> {
        let is_it = |cleanup: &&Cleanup| match cleanup {
            Cleanup::Awaited(Awaited::Upgrade(request, _)) => request.lease == *lease,
            _ => false,
        };
        lock(&self.state).pending.iter().find(is_it).cloned()
    }

    fn done(&self, cleanup: &Cleanup) {
        lock(&self.state).pending.retain(|other| other != cleanup);
    }

    /// Cancels the clean-up of a lease that is asked for again.
    pub(super) fn cancel(&self, lease: &LeaseId) {
        let mut state = lock(&self.state);
        if !state.pending.is_empty() {
            state.pending.retain(|cleanup| match cleanup {
                Cleanup::Lease(id) => id != lease,
                Cleanup::Awaited(awaited) => awaited.lease() != lease,
            });
        }
    }
}

impl Inner {
    /// Adds a clean-up, and starts the thread that does it.
    pub(super) fn add_cleanup(&self, cleanup: Cleanup) {
        if self.is_forked() {
            return;
        }
        let mut state = lock(&self.pending_cleanup.state);
        state.pending.push(cleanup);
        if state.running {
            return;
        }
        let itself = Weak::clone(&self.itself);
        let thread = thread::Builder::new().name("tenure-cleanup".into());
        // If no thread can be started, the end of the session ends what it holds.
        state.running = thread.spawn(move || clean_up(&itself)).is_ok();
    }

    /// Does the first pending clean-up. Returns false if none is left.
    fn clean_up_one(&self) -> bool {
        let mut state = lock(&self.pending_cleanup.state);
        let Some(cleanup) = state.pending.first().cloned() else {
            state.running = false;
            return false;
        };
        drop(state);
        let done = self.write_once(Durability::Crash, |step| self.clean_up_in(step, &cleanup));
        if done.is_err() {
            thread::sleep(RETRY_PAUSE);
            return true;
        }
        if let Cleanup::Lease(lease) = &cleanup {
            self.sessions.no_longer_holds(lease);
        }
        self.pending_cleanup.done(&cleanup);
        true
    }

    /// Cleans up in a step if it is still pending. Returns true if there was anything to end.
    fn clean_up_in(&self, step: &mut Step<'_>, cleanup: &Cleanup) -> Result<bool> {
        if !self.pending_cleanup.is_pending(cleanup) {
            return Ok(false);
        }
        match cleanup {
            Cleanup::Lease(lease) => release::release_in_step(step, lease),
            Cleanup::Awaited(awaited) => release::abandon_in_step(step, awaited),
        }
    }

    /// Does the pending clean-up of an upgrade, before the next upgrade of the same lease.
    pub(super) async fn clean_up_upgrade(&self, lease: &LeaseId) -> Result<()> {
        while let Some(cleanup) = self.pending_cleanup.upgrade_of(lease) {
            self.write(Durability::Crash, |step| self.clean_up_in(step, &cleanup))
                .await?;
            self.pending_cleanup.done(&cleanup);
        }
        Ok(())
    }
}

fn clean_up(store: &Weak<Inner>) {
    while let Some(store) = store.upgrade() {
        if !store.clean_up_one() {
            return;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use tenure_core::decide::Wait;
    use tenure_core::{Asker, Mode, Owner, Request, Resource, SessionId, UpgradeRequest};

    use super::super::load::load_lease;
    use super::super::moment::Moment;
    use super::*;

    pub(crate) fn request() -> Request {
        let asker = Asker {
            session: SessionId::parse("s").unwrap(),
            owner: Owner::parse("ana").unwrap(),
            pid: std::process::id(),
            host: "here".into(),
            command: "test".into(),
            agent: None,
        };
        Request {
            standing: Default::default(),
            lease: LeaseId::parse("l").unwrap(),
            resource: Resource::parse("a").unwrap(),
            mode: Mode::Write,
            asker: Arc::new(asker),
            purpose: None,
            metadata: None,
            deadline: None,
            wait: Wait::No,
            capacity: None,
        }
    }

    /// The thread has read the pending clean-up, and makes its step only after the same lease was
    /// asked for again and granted.
    #[tokio::test]
    async fn a_debt_struck_out_while_it_is_being_paid_ends_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let store = Inner::open(
            &directory.path().join("tenure.db"),
            crate::OpenOptions::trusting(true),
        )
        .unwrap();
        let request = request();
        let cleanup = Cleanup::Awaited(Awaited::Lease(request.clone()));
        lock(&store.pending_cleanup.state)
            .pending
            .push(cleanup.clone());
        store.acquire(&request).await.unwrap().unwrap();
        let clean_up =
            || store.write_once(Durability::Crash, |step| store.clean_up_in(step, &cleanup));
        assert!(!clean_up().unwrap());
        let held = |sql: &crate::connection::Sql<'_>| {
            let row = load_lease(sql, &request.lease, &Moment::now()?)?;
            Ok(row.is_some())
        };
        assert!(store.read(held).await.unwrap());
        // A pending clean-up ends it.
        lock(&store.pending_cleanup.state)
            .pending
            .push(cleanup.clone());
        assert!(clean_up().unwrap());
        assert!(!store.read(held).await.unwrap());
    }

    /// Otherwise the clean-up would undo the second upgrade while its holder relies on being alone.
    #[tokio::test]
    async fn an_upgrade_that_is_owed_is_paid_before_the_next_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let store = Inner::open(
            &directory.path().join("tenure.db"),
            crate::OpenOptions::trusting(true),
        )
        .unwrap();
        let request = Request {
            mode: Mode::Upgradeable,
            ..request()
        };
        store.acquire(&request).await.unwrap().unwrap();
        let upgrade = UpgradeRequest {
            standing: Default::default(),
            lease: request.lease.clone(),
            asker: Arc::clone(&request.asker),
            deadline: None,
            wait: Wait::No,
        };
        let awaited = Awaited::Upgrade(upgrade.clone(), request.resource.clone());
        let cleanup = Cleanup::Awaited(awaited);
        lock(&store.pending_cleanup.state)
            .pending
            .push(cleanup.clone());
        let token = store.upgrade(&upgrade).await.unwrap();
        assert!(token.is_some());
        let done = store.write_once(Durability::Crash, |step| store.clean_up_in(step, &cleanup));
        assert!(!done.unwrap());
        let mode = |sql: &crate::connection::Sql<'_>| {
            let row = load_lease(sql, &request.lease, &Moment::now()?)?;
            Ok(row.map(|row| row.lease.mode))
        };
        assert_eq!(store.read(mode).await.unwrap(), Some(Mode::Write));
    }
}
