//! What a drop could not end, because the database was busy for too long.
//!
//! A drop cannot wait, and nobody may ask this process for anything again. So whatever is owed
//! is paid by a thread that tries until it is done, or until the store is gone: then the
//! session ends, and all it holds with it.
//!
//! # Asked again meanwhile
//!
//! What is owed may be asked for again, under the same id, before it is paid. The payment must
//! not end what the second request got. So whoever asks again strikes the debt out or pays it,
//! and only then makes its step; and whoever pays looks inside its step whether it is still owed.
//! The mutex of the connection is held during a step, so one of the two comes first.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tenure_core::{LeaseId, Resource, Result, SessionId};

use super::inner::Inner;
use super::release;
use super::step::Step;

/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// What a drop could not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owed {
    /// A lease.
    Lease(LeaseId),
    /// A place in the line, or what it was granted.
    Place(LeaseId, Resource),
    /// An upgrade that this session waits for, or was granted meanwhile.
    Upgrade(LeaseId, Resource, SessionId),
}

/// All that is owed.
#[derive(Debug, Default)]
pub(super) struct Debts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    owed: Vec<Owed>,
    /// A thread is paying.
    paying: bool,
}

impl Debts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_owed(&self, owed: &Owed) -> bool {
        self.state().owed.contains(owed)
    }

    fn upgrade_of(&self, lease: &LeaseId) -> Option<Owed> {
        let is_it = |owed: &&Owed| matches!(owed, Owed::Upgrade(id, ..) if id == lease);
        self.state().owed.iter().find(is_it).cloned()
    }

    fn paid(&self, owed: &Owed) {
        self.state().owed.retain(|other| other != owed);
    }

    /// Strikes out what was owed of a lease that is asked for again.
    pub(super) fn strike(&self, lease: &LeaseId) {
        let mut state = self.state();
        if !state.owed.is_empty() {
            state.owed.retain(|owed| match owed {
                Owed::Lease(id) | Owed::Place(id, _) | Owed::Upgrade(id, ..) => id != lease,
            });
        }
    }
}

impl Inner {
    /// Notes what could not be ended, and has it done as soon as that is possible.
    pub(super) fn owe(&self, owed: Owed) {
        if self.is_forked() {
            return;
        }
        let mut state = self.debts.state();
        state.owed.push(owed);
        if state.paying {
            return;
        }
        let itself = Weak::clone(&self.itself);
        let thread = thread::Builder::new().name("tenure-owed".into());
        // Where no thread can be had, the end of the session ends what it holds.
        state.paying = thread.spawn(move || pay(&itself)).is_ok();
    }

    /// Pays the first that is owed. False if nothing is left.
    fn pay_one(&self) -> bool {
        let mut state = self.debts.state();
        let Some(owed) = state.owed.first().cloned() else {
            state.paying = false;
            return false;
        };
        drop(state);
        let paid = self.write_once(&mut |step| self.pay_in(step, &owed));
        if paid.is_err() {
            thread::sleep(PAUSE);
            return true;
        }
        if let Owed::Lease(lease) = &owed {
            self.sessions.no_longer_holds(lease);
        }
        self.debts.paid(&owed);
        true
    }

    /// Pays in a step, if it is still owed. Whether there was anything to end.
    fn pay_in(&self, step: &mut Step<'_>, owed: &Owed) -> Result<bool> {
        if !self.debts.is_owed(owed) {
            return Ok(false);
        }
        match owed {
            Owed::Lease(lease) => release::end_once(step, lease),
            Owed::Place(lease, resource) => release::give_up(step, lease, resource),
            Owed::Upgrade(lease, resource, session) => {
                release::give_up_upgrade(step, lease, resource, session)
            }
        }
    }

    /// Gives up an upgrade that is still to be given up, before the next of the same lease is
    /// asked for.
    pub(super) async fn settle_upgrade(&self, lease: &LeaseId) -> Result<()> {
        while let Some(owed) = self.debts.upgrade_of(lease) {
            self.write(|step| self.pay_in(step, &owed)).await?;
            self.debts.paid(&owed);
        }
        Ok(())
    }
}

fn pay(store: &Weak<Inner>) {
    while let Some(store) = store.upgrade() {
        if !store.pay_one() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure_core::{Asker, Mode, Owner, Request};

    use super::super::load::load_lease;
    use super::super::moment::Moment;
    use super::*;

    fn request() -> Request {
        let asker = Asker {
            session: SessionId::parse("s").unwrap(),
            owner: Owner::parse("ana").unwrap(),
            pid: std::process::id(),
            host: "here".into(),
            command: "test".into(),
        };
        Request {
            lease: LeaseId::parse("l").unwrap(),
            resource: Resource::parse("a").unwrap(),
            mode: Mode::Write,
            asker: Arc::new(asker),
            purpose: None,
            metadata: None,
            deadline: None,
            until: None,
            capacity: None,
        }
    }

    /// The thread that pays has read the debt, and comes to its step only after the same lease
    /// was asked for again and granted.
    #[tokio::test]
    async fn a_debt_struck_out_while_it_is_being_paid_ends_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let store = Inner::open(&directory.path().join("tenure.db"), true).unwrap();
        let request = request();
        let owed = Owed::Place(request.lease.clone(), request.resource.clone());
        store.debts.state().owed.push(owed.clone());
        store.try_take(&request).await.unwrap().unwrap();
        let pay = || store.write_once(&mut |step| store.pay_in(step, &owed));
        assert!(!pay().unwrap());
        let held = |sql: &crate::connection::Sql<'_>| {
            let row = load_lease(sql, &request.lease, &Moment::now()?)?;
            Ok(row.is_some())
        };
        assert!(store.read(held).await.unwrap());
        // Owed, it is ended.
        store.debts.state().owed.push(owed.clone());
        assert!(pay().unwrap());
        assert!(!store.read(held).await.unwrap());
    }

    /// Else the payment would undo the second upgrade, while whoever has it relies on being alone.
    #[tokio::test]
    async fn an_upgrade_that_is_owed_is_paid_before_the_next_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let store = Inner::open(&directory.path().join("tenure.db"), true).unwrap();
        let request = Request {
            mode: Mode::Upgradeable,
            ..request()
        };
        store.try_take(&request).await.unwrap().unwrap();
        let owed = Owed::Upgrade(
            request.lease.clone(),
            request.resource.clone(),
            request.asker.session.clone(),
        );
        store.debts.state().owed.push(owed.clone());
        let token = store.try_become_write(&request.lease).await.unwrap();
        assert!(token.is_some());
        let paid = store.write_once(&mut |step| store.pay_in(step, &owed));
        assert!(!paid.unwrap());
        let mode = |sql: &crate::connection::Sql<'_>| {
            let row = load_lease(sql, &request.lease, &Moment::now()?)?;
            Ok(row.map(|row| row.lease.mode))
        };
        assert_eq!(store.read(mode).await.unwrap(), Some(Mode::Write));
    }
}
