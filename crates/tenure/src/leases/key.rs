//! Asking under a key: the same request twice is one request.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::leases::{KeyState, Keyed, spell_request};
use tenure_core::{Error, IdempotenceKey, Lease, LockSet, Mode, Resource, Result, Store};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::permit;
use crate::retry::retry;
use crate::session::{Patience, Shared};
use crate::{Keeper, random};

/// The first pause before a key that is taken is asked for again. Whoever has it gets or gives
/// up its locks in its own time, and no line is kept for it: asking under one key at the same
/// time is a repeated request, not a crowd.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// What a request under a key comes to.
pub(super) enum Begun {
    /// Nothing was asked under it: go on, and bind with it.
    Ours(Asking),
    /// It was answered before.
    Answered(Vec<Lease>),
}

/// A key this request has, until it is bound or given up.
pub(super) struct Asking {
    store: Arc<dyn Store>,
    pub(super) keyed: Arc<Keyed>,
    settled: bool,
}

/// Begins to ask for a set under a key, waiting for whoever asks under it already.
pub(super) async fn begin(
    keeper: &Keeper,
    session: &Shared,
    set: &LockSet,
    ttl: Duration,
    key: &IdempotenceKey,
    patience: &Patience,
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
        match retry(&keeper.settings().retry, || leases.begin_key(&keyed)).await? {
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
            KeyState::Conflict(actual) => return Err(conflict(session, set, key, actual)),
            KeyState::Taken(_) => {}
        }
        let now = Instant::now();
        if now >= patience.deadline() {
            let (resource, mode) = first(set)?;
            let gave_up = patience.gave_up(asked);
            return Err(session.in_the_way(gave_up, resource, mode, None).await);
        }
        // Half of the pause differs, so that those who ask together do not stay together.
        let again = now + pause.mul_f64(0.5 + random::fraction() / 2.0);
        sleep_until(again.min(patience.deadline())).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Err(Error::Internal("a wait without end ended".into()))
}

fn conflict(session: &Shared, set: &LockSet, key: &IdempotenceKey, actual: String) -> Error {
    match first(set) {
        Ok((resource, mode)) => Error::Conflict {
            place: session.place(resource, mode),
            expected: format!("key {key} to be new, or asked for the same again"),
            actual: format!("taken: {actual}"),
        },
        Err(error) => error,
    }
}

/// What an error about a whole set names.
fn first(set: &LockSet) -> Result<(&Resource, Mode)> {
    let first = set.iter().next();
    let (resource, mode) = first.ok_or_else(super::lock::empty)?;
    Ok((resource, *mode))
}

impl Asking {
    /// The leases are bound: the key stands for them now.
    pub(super) fn bound(mut self) {
        self.settled = true;
    }

    /// Gives the key up, and waits for it: when the caller hears of the failure, it is free.
    pub(super) async fn give_up(mut self) {
        forget(Arc::clone(&self.store), Arc::clone(&self.keyed)).await;
        // Only now: dropped in the middle of it, the key is still to be given up.
        self.settled = true;
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The request was dropped half-way. Whoever asks again must not wait until the whole
        // session is over; without a runtime to do it in, that is what remains.
        if let (false, Ok(runtime)) = (self.settled, Handle::try_current()) {
            let forget = forget(Arc::clone(&self.store), Arc::clone(&self.keyed));
            drop(runtime.spawn(forget));
        }
    }
}

/// A key that is bound already stays: the store makes sure of that. One that cannot be given
/// up now ends with its session.
async fn forget(store: Arc<dyn Store>, keyed: Arc<Keyed>) {
    if let Some(leases) = store.leases() {
        drop(leases.forget_key(&keyed).await);
    }
}
