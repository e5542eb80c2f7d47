//! Requests under a key: a repeated request is one request.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::leases::{KeyState, Keyed, spell_request};
use tenure_core::{Error, IdempotenceKey, Lease, LockSet, Mode, Resource, Result, Store};
use tenure_os::random;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::permit;
use crate::Keeper;
use crate::retry::retry;
use crate::session::{Deadline, Shared};

/// The first pause before a key that is taken is asked for again. There is no line for a key:
/// requests under one key at the same time are a repeated request, not many waiters.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The outcome of a request under a key.
pub(super) enum Begun {
    /// The key is new: the caller acquires, and binds with it.
    Ours(Asking),
    /// The request was answered before.
    Answered(Vec<Lease>),
}

/// A key that this request has, until it is bound or given up.
pub(super) struct Asking {
    store: Arc<dyn Store>,
    pub(super) keyed: Arc<Keyed>,
    settled: bool,
}

/// Begins a request for a set under a key. Waits for a request that has the key already.
pub(super) async fn begin(
    keeper: &Keeper,
    session: &Shared,
    set: &LockSet,
    ttl: Duration,
    key: &IdempotenceKey,
    deadline: &Deadline,
) -> Result<Begun> {
    let keyed = Arc::new(Keyed {
        key: key.clone(),
        owner: session.asker.owner.clone(),
        request: spell_request(set.iter(), ttl),
        asker: Arc::clone(&session.asker),
    });
    let leases = permit::leases(keeper, "lock")?;
    let mut pause = PAUSE_MIN;
    for asked in 1.. {
        match retry(keeper.retry(), || leases.begin_key(&keyed)).await? {
            KeyState::Yours => {
                let store = Arc::clone(keeper.store());
                let settled = false;
                return Ok(Begun::Ours(Asking {
                    store,
                    keyed,
                    settled,
                }));
            }
            KeyState::Done(leases) => return Ok(Begun::Answered(leases)),
            KeyState::Foreign(lease) => {
                let agent = session.asker.actor();
                return Err(permit::taken_by_another(agent, &lease, "lock again"));
            }
            KeyState::Conflict(actual) => return Err(conflict(session, set, key, actual)),
            KeyState::Taken(_) => {}
        }
        let now = Instant::now();
        if now >= deadline.instant() {
            let (resource, mode) = first(set)?;
            let gave_up = deadline.gave_up(asked);
            return Err(session.in_the_way(gave_up, resource, mode, None).await);
        }
        // Half of the pause is random, so that requests made together spread out.
        let again = now + pause.mul_f64(0.5 + random::fraction() / 2.0);
        sleep_until(again.min(deadline.instant())).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Err(Error::Internal("a wait without end ended".into()))
}

fn conflict(session: &Shared, set: &LockSet, key: &IdempotenceKey, actual: String) -> Error {
    match first(set) {
        Ok((resource, mode)) => Error::unexpected(
            session.context(resource, mode),
            format!("key {key} to be new, or asked for the same again"),
            format!("taken: {actual}"),
        ),
        Err(error) => error,
    }
}

/// Returns the lock that errors about a whole set name.
fn first(set: &LockSet) -> Result<(&Resource, Mode)> {
    let first = set.iter().next();
    let (resource, mode) = first.ok_or_else(super::lock::empty)?;
    Ok((resource, *mode))
}

impl Asking {
    /// Notes that the leases are bound: the key stands for them now.
    pub(super) fn bound(mut self) {
        self.settled = true;
    }

    /// Gives the key up, and waits for it: when the caller gets the error, the key is free.
    pub(super) async fn give_up(mut self) {
        forget(Arc::clone(&self.store), Arc::clone(&self.keyed)).await;
        // Set only now: if the future is dropped before, the drop still gives the key up.
        self.settled = true;
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The request was dropped half-way. The next request under the key must not wait until the
        // session is over; only without a runtime it has to.
        if let (false, Ok(runtime)) = (self.settled, Handle::try_current()) {
            let forget = forget(Arc::clone(&self.store), Arc::clone(&self.keyed));
            drop(runtime.spawn(forget));
        }
    }
}

/// Gives a key up. The store keeps a key that is bound already. A key that cannot be given up now
/// ends with its session.
async fn forget(store: Arc<dyn Store>, keyed: Arc<Keyed>) {
    if let Some(leases) = store.leases() {
        drop(leases.forget_key(&keyed).await);
    }
}
