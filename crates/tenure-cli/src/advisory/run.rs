//! `tenure advisory run`: a command under an advisory lock.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use tenure::{Error, LockContext, Mode, Result, duration};
use tenure_postgres::advisory::{AdvisoryLocks, DEFAULT_WAIT, Guard, Key, LockEntry};
use tenure_run::{Signals, Watchdog};
use tokio::time::sleep;

use super::held::AdvisoryLock;
use super::{open, outer};
use crate::cli::AdvisoryRun;
use crate::context::Context;
use crate::context::asked;
use crate::opening::open_unless_interrupted;
use crate::output::word;
use crate::report::{Failure, Report};
use crate::run::{command, exit_code, run_under};
use tenure_service::Limit;

/// The wait after which a person is told of the holder.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// The longest time to look up the holder for a request that does not wait.
const LOOK: Duration = Duration::from_millis(50);

/// Acquires the lock, runs the command, releases the lock.
pub async fn run(
    context: &Context,
    options: AdvisoryRun,
    watchdog: Watchdog,
    report: Report,
) -> Result<ExitCode, Failure> {
    let mut command = command(&options.command)?;
    let mut signals = Signals::listen()?;
    let key = Key::Pair(options.namespace, options.id);
    let lock_context = key.context(Mode::Write, context.shown())?;
    let wait = asked(options.no_wait, options.wait);
    let (_, limit) = context.owner_and_limit(None, wait, DEFAULT_WAIT, None)?;
    let opening = open(context, limit.for_opening());
    let resource = Some(&lock_context.resource);
    let locks = open_unless_interrupted(opening, resource, &mut signals).await?;
    let store = context.shown();
    // A request that does not wait finds the lock held, whoever holds it.
    if !limit.whole().is_zero() && outer::is_held_around(&locks, &store, key).await? {
        return Err(locks.reentry(key, Mode::Write)?.into());
    }
    let taken = acquire_unless_interrupted(&locks, key, limit, &mut signals, &lock_context).await;
    let guard = taken.map_err(|error| limit.whole_in(error))?;
    command
        .envs([outer::variable(&guard, &store, key)])
        .env("TENURE_STORE", &context.located.url)
        .env("TENURE_RESOURCE", lock_context.resource.as_str())
        .env("TENURE_TOKEN", guard.token().to_string());
    let held = AdvisoryLock {
        guard,
        context: lock_context,
    };
    let ended = run_under(command, held, Some(watchdog), &mut signals, report).await?;
    Ok(exit_code(ended, report))
}

async fn acquire_unless_interrupted(
    locks: &AdvisoryLocks,
    key: Key,
    limit: Limit,
    signals: &mut Signals,
    lock_context: &LockContext,
) -> Result<Guard> {
    tokio::select! {
        biased;
        taken = acquire(locks, key, limit.left()) => taken,
        _ = signals.interruption() => Err(Error::Interrupted { act: "waiting for", resource: lock_context.resource.clone() }),
        never = tell(locks, key, limit.whole(), lock_context) => match never {},
    }
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
    lock_context: &LockContext,
) -> Infallible {
    sleep(TELL_AFTER).await;
    let listed = locks.list().await;
    let locks = listed.map(|listed| listed.locks).unwrap_or_default();
    let holders = locks
        .iter()
        .filter(|lock| lock.granted && Key::of(lock) == key);
    let holders: Vec<String> = holders.map(held_by).collect();
    let by = match holders.is_empty() {
        true => String::new(),
        false => format!(", held by {}", holders.join(" and ")),
    };
    let limit = duration::show(limit);
    let location = &lock_context.location;
    word(&format!("waiting up to {limit} for {location}{by}"));
    std::future::pending().await
}

/// `server process 4242 (psql, idle)`.
fn held_by(lock: &LockEntry) -> String {
    let program = lock.application_name.as_deref().filter(|n| !n.is_empty());
    let known = [program, lock.state.as_deref()];
    let known: Vec<&str> = known.into_iter().flatten().collect();
    match known.is_empty() {
        true => format!("server process {}", lock.pid),
        false => format!("server process {} ({})", lock.pid, known.join(", ")),
    }
}
