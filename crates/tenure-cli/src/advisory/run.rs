//! `tenure advisory run`: a command under an advisory lock.

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use tenure::{Class, Error, Mode, Place, Resource, Result, duration};
use tenure_postgres::{AdvisoryLocks, DEFAULT_WAIT, Guard, Key, LockEntry, Locks};
use tokio::time::{sleep, timeout};

use super::ending::Ending;
use super::open;
use crate::cli::AdvisoryRun;
use crate::context::{Context, OPEN_MIN};
use crate::exit;
use crate::opening::opened;
use crate::people::visible;
use crate::report::{Failure, Report, word};
use crate::run::{Child, Launch, Limit};
use crate::signals::Signals;

/// Whoever waits hears after this who is in the way.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// How long it may take to find out who is in the way of one who does not wait.
const LOOK: Duration = Duration::from_millis(50);
/// How long the release takes at most of a lock that was lost already.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// Takes the lock, runs the command, gives the lock back.
pub async fn run(
    context: &Context,
    options: AdvisoryRun,
    report: Report,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let key = Key::Pair(options.namespace, options.id);
    let place = place(context, &options)?;
    let limit = Limit::new(match options.no_wait {
        true => Duration::ZERO,
        false => options.wait.unwrap_or(context.settings(DEFAULT_WAIT).wait),
    });
    let opening = open(context, limit.left().max(OPEN_MIN));
    let resource = Some(&place.resource);
    let locks = opened(opening, &context.shown(), resource, &mut signals).await?;
    let taken = take(&locks, key, limit, &mut signals, &place).await;
    let guard = taken.map_err(|error| limit.whole_in(error))?;
    let environment = [
        ("TENURE_STORE", OsString::from(&context.located.url)),
        ("TENURE_RESOURCE", place.resource.as_str().into()),
        ("TENURE_TOKEN", guard.token().to_string().into()),
    ];
    let child = Child::spawn(&Launch {
        command: &options.command,
        environment: &environment,
        guards: &[],
        close: true,
    });
    let mut child = match child {
        Ok(child) => child,
        Err(failure) => {
            // What cannot be given back is freed with the connection, as this process ends.
            drop(guard.release().await);
            return Err(failure);
        }
    };
    let on_loss = |error| report.late_failure(&Failure::Error(error));
    let ended = child
        .supervise(&mut signals, Ending::of(&guard, place), on_loss)
        .await;
    if ended.lost {
        drop(timeout(RELEASE_MAX, guard.release()).await);
        return Ok(ExitCode::from(exit::LOST));
    }
    match guard.release().await {
        Ok(()) => {}
        Err(error) if error.class() == Class::Lost => {
            on_loss(error);
            return Ok(ExitCode::from(exit::LOST));
        }
        Err(error) => word(&visible(&error.to_string())),
    }
    child.follow(ended);
    Ok(ExitCode::from(ended.code))
}

/// What is said of the lock.
fn place(context: &Context, options: &AdvisoryRun) -> Result<Box<Place>> {
    let (namespace, id) = (options.namespace, options.id);
    let resource = Resource::new("advisory", format!("{namespace}/{id}"));
    let resource = resource.map_err(|problem| Error::Internal(problem.to_string()))?;
    Ok(Box::new(Place {
        resource,
        mode: Mode::Write,
        store: context.shown(),
        location: format!("advisory lock ({namespace}, {id})"),
    }))
}

async fn take(
    locks: &AdvisoryLocks,
    key: Key,
    limit: Limit,
    signals: &mut Signals,
    place: &Place,
) -> Result<Guard> {
    tokio::select! {
        biased;
        taken = acquire(locks, key, limit.left()) => taken,
        _ = signals.interruption() => Err(Error::Interrupted { resource: place.resource.clone() }),
        never = tell(locks, key, limit.whole(), place) => match never {},
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
    // Asked once more, for a moment, it is told who holds it.
    match session.acquire(key, Mode::Write, LOOK).await {
        Err(Error::Timeout { place, holders, .. }) => Err(Error::Busy { place, holders }),
        answer => answer,
    }
}

/// Tells a person once who is in the way.
async fn tell(locks: &AdvisoryLocks, key: Key, limit: Duration, place: &Place) -> Infallible {
    sleep(TELL_AFTER).await;
    let listed = locks.list().await;
    let Locks { locks, .. } = listed.unwrap_or(Locks {
        total: 0,
        locks: Vec::new(),
    });
    let holders = locks
        .iter()
        .filter(|lock| lock.granted && lock.key() == key);
    let holders: Vec<String> = holders.map(held_by).collect();
    let by = match holders.is_empty() {
        true => String::new(),
        false => format!(", held by {}", holders.join(" and ")),
    };
    let limit = duration::show(limit);
    let location = &place.location;
    word(&visible(&format!(
        "waiting up to {limit} for {location}{by}"
    )));
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
