//! What a drop could not end, because the database was busy for too long.
//!
//! A drop cannot wait, and nobody may ask this process for anything again. So whatever is owed
//! is paid by a thread that tries until it is done, or until the store is gone: then the
//! session ends, and all it holds with it.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tenure_core::{LeaseId, Resource};

use super::inner::Inner;
use super::release;

/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// What a drop could not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owed {
    /// A lease.
    Lease(LeaseId),
    /// A place in the line, or what it was granted.
    Place(LeaseId, Resource),
    /// An upgrade that waits, or was granted meanwhile.
    Upgrade(LeaseId, Resource),
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

    /// Strikes out what was owed of a lease that is asked for again.
    pub(super) fn strike(&self, lease: &LeaseId) {
        let mut state = self.state();
        if !state.owed.is_empty() {
            state.owed.retain(|owed| match owed {
                Owed::Lease(id) | Owed::Place(id, _) | Owed::Upgrade(id, _) => id != lease,
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
        let paid = match &owed {
            Owed::Lease(lease) => self.write_once(&mut |step| release::end_once(step, lease)),
            Owed::Place(lease, resource) => {
                self.write_once(&mut |step| release::give_up(step, lease, resource))
            }
            Owed::Upgrade(lease, resource) => {
                self.write_once(&mut |step| release::give_up_upgrade(step, lease, resource))
            }
        };
        if paid.is_err() {
            thread::sleep(PAUSE);
            return true;
        }
        if let Owed::Lease(lease) = &owed {
            self.sessions.no_longer_holds(lease);
        }
        self.debts.state().owed.retain(|other| *other != owed);
        true
    }
}

fn pay(store: &Weak<Inner>) {
    while let Some(store) = store.upgrade() {
        if !store.pay_one() {
            return;
        }
    }
}
