//! Takes an advisory lock for a command. This is no operation: the lock cannot leave this process,
//! which runs the command itself.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tenure::{Error, LockContext, Mode, Resource, Result, Token, duration};
use tenure_postgres::advisory::{AdvisoryLocks, DEFAULT_WAIT, Guard, Key, LockEntry, Namespace};
use tokio::time::sleep;

use super::around::{OuterLock, is_held_around};
use super::held::AdvisoryLock;
use crate::{Caller, Limit, Service};

/// The wait after which a person is told of the holder.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// The longest time to look up the holder for a request that does not wait.
const LOOK: Duration = Duration::from_millis(50);

/// A request for an advisory lock that a command is to run under.
#[derive(Debug)]
pub struct AdvisoryRun {
    /// The kind of thing that is locked.
    pub namespace: Namespace,
    /// The number in the namespace.
    pub id: i32,
    /// The longest wait, if the caller asks for one.
    pub wait: Option<Duration>,
    /// The advisory locks that are held around the call.
    pub around: Vec<OuterLock>,
}

/// An advisory lock that a command runs under, and the facts about it that the command is told.
pub struct UnderAdvisoryLock {
    /// The lock, which is held until it is released.
    pub held: AdvisoryLock,
    /// The resource that is locked.
    pub resource: Resource,
    /// The number of this grant.
    pub token: Token,
    /// The advisory locks that are held around the command.
    pub passed_on: Vec<OuterLock>,
}

impl Service {
    /// Takes an advisory lock for a command.
    pub async fn hold_advisory_lock(
        &self,
        run: AdvisoryRun,
        caller: &Caller,
    ) -> Result<UnderAdvisoryLock> {
        let (key, store) = (Key::Pair(run.namespace, run.id), self.shown_store());
        let context = key.context(Mode::Write, store.clone())?;
        let limit = self.limit(caller, run.wait, DEFAULT_WAIT, None)?;
        let resource = &context.resource;
        let opening = self.advisory_locks(limit.for_opening(), Some(resource), caller);
        let locks = opening.await?;
        // A request that does not wait needs no check: it finds the lock held, even by a run around
        // it.
        let mut around = run.around;
        let waits = !limit.whole().is_zero();
        if waits && is_held_around(&around, &locks, &store, key).await? {
            return Err(locks.reentry(key, Mode::Write)?);
        }
        let taken = acquire_unless_cancelled(&locks, key, limit, &context, caller).await;
        let guard = taken.map_err(|error| limit.whole_in(error))?;
        around.push(OuterLock::of(&guard, &store, key));
        Ok(UnderAdvisoryLock {
            resource: context.resource.clone(),
            token: guard.token(),
            passed_on: around,
            held: AdvisoryLock {
                guard,
                context,
                observer: caller.observer().clone(),
            },
        })
    }
}

/// Takes the lock, unless the caller cancels first. A lock that was granted meanwhile is freed with
/// its guard.
async fn acquire_unless_cancelled(
    locks: &AdvisoryLocks,
    key: Key,
    limit: Limit,
    context: &LockContext,
    caller: &Caller,
) -> Result<Guard> {
    tokio::select! {
        biased;
        taken = acquire(locks, key, limit.left()) => match taken {
            Ok(_) if caller.cancel().is_cancelled() => {}
            taken => return taken,
        },
        () = caller.cancel().cancelled() => {}
        never = tell(locks, key, limit.whole(), context, caller) => match never {},
    }
    Err(Error::interrupted(context.resource.clone()))
}

async fn acquire(locks: &AdvisoryLocks, key: Key, limit: Duration) -> Result<Guard> {
    let session = locks.session();
    if !limit.is_zero() {
        return session.acquire(key, Mode::Write, limit).await;
    }
    if let Some(guard) = session.try_acquire(key, Mode::Write).await? {
        return Ok(guard);
    }
    // A second, short request fails with an error that names the holder.
    match session.acquire(key, Mode::Write, LOOK).await {
        Err(Error::Timeout {
            context, holders, ..
        }) => Err(Error::Busy { context, holders }),
        answer => answer,
    }
}

/// Names the holder to a person, once.
async fn tell(
    locks: &AdvisoryLocks,
    key: Key,
    limit: Duration,
    context: &LockContext,
    caller: &Caller,
) -> Infallible {
    sleep(TELL_AFTER).await;
    let listed = locks.list().await;
    let locks = listed.map(|listed| listed.locks).unwrap_or_default();
    let holders = locks
        .iter()
        .filter(|lock| lock.granted && Key::of(lock) == key);
    let holders: Vec<String> = holders.map(held_by).collect();
    let by = if holders.is_empty() {
        String::new()
    } else {
        format!(", held by {}", holders.join(" and "))
    };
    let (limit, location) = (duration::show(limit), &context.location);
    let word = format!("waiting up to {limit} for {location}{by}");
    caller.observer().word(&word);
    pending().await
}

/// `server process 4242 (psql, idle)`.
fn held_by(lock: &LockEntry) -> String {
    let program = lock.application_name.as_deref().filter(|n| !n.is_empty());
    let known = [program, lock.state.as_deref()];
    let known: Vec<&str> = known.into_iter().flatten().collect();
    if known.is_empty() {
        format!("server process {}", lock.pid)
    } else {
        format!("server process {} ({})", lock.pid, known.join(", "))
    }
}
