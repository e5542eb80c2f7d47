//! Acquires an advisory lock.
//!
//! 1. The session reserves the key. If it holds the key or asks for it already, that is re-entry,
//!    an error at once.
//! 2. The pool gives a clean connection, or opens one. If it has none in time, it is exhausted.
//! 3. One statement takes the lock and draws the token (see [`sql`](super::sql) and [`tokens`]).
//! 4. The reply must come from the session that was asked.
//! 5. If the statement was sent longer ago than the interval of probes, the session is probed once
//!    more, so that a guard never begins with an old answer.
//!
//! | when | what happens |
//! |---|---|
//! | the future is dropped, at any step | the connection is dropped with it: a waiting statement is cancelled, a granted lock freed |
//! | the process dies | the server ends the session, and frees the lock |
//! | the statement fails in step 3 | the lock may have been granted before (PostgreSQL's bug 17686): everything the session may hold is unlocked, and the connection ended, never pooled |
//! | a kept connection has ended | its session held nothing any more: the next connection is used |
//! | a kept connection draws from a sequence that is gone | it is ended, and the next one used: a new one knows the new sequence |
//! | no answer in time | as if dropped |

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Lease, LockContext, Mode, Result};
use tenure_os::clock;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::guard::Guard;
use super::liveness::PROBE_EVERY;
use super::pool::{Origin, Pool};
use super::reentry::Reservation;
use super::sql::{LimitMs, LockAnswer, Prepared, Step, UNLOCK_ALL};
use super::{Key, monitor, tokens};
use crate::connect::left;
use crate::fault::unreachable;
use crate::prove::shared;

/// The time after the caller's deadline at which a server without an answer counts as gone.
const GRACE: Duration = Duration::from_secs(1);

/// The part of the caller's time that may pass before a new limit must be set at the server.
const NEARLY: Duration = Duration::from_millis(20);

/// A request for a lock.
pub(super) struct Ask {
    pub(super) step: Step,
    pub(super) key: Key,
    pub(super) mode: Mode,
    pub(super) reservation: Reservation,
    /// The time that the caller is ready to wait.
    pub(super) limit: Duration,
}

/// Takes the lock. Returns `None` if it is held and the request does not wait.
pub(super) async fn acquire(pool: &Arc<Pool>, ask: Ask) -> Result<Option<Guard>> {
    let started = Instant::now();
    let deadline = started + ask.limit;
    let mut attempts = 0;
    loop {
        let (mut prepared, origin) = pool.take(deadline).await?;
        attempts += 1;
        let sent = clock::boot_now();
        let before = pool.highest.get();
        let limit = for_server(ask.limit, left(deadline));
        let granting = prepared.grant(ask.step, ask.mode, ask.key, limit);
        let answer = timeout(left(deadline) + GRACE, granting).await;
        let Ok(answer) = answer else {
            return Err(unreachable(&pool.address, "no answer in time"));
        };
        match answer {
            Ok(LockAnswer { pid, token }) => {
                same(&prepared, pid)?;
                let Some(token) = token else {
                    // The lock was not granted, without an error: the session holds nothing.
                    pool.give_back(prepared);
                    return Ok(None);
                };
                let token = if ask.mode == Mode::Write && token <= before {
                    draw_beyond(pool, &prepared, before).await?
                } else {
                    token
                };
                let guard = guard_of(pool, ask, prepared, token, sent).await;
                return guard.map(Some);
            }
            Err(_) if origin == Origin::Kept && prepared.connection.is_over() => {}
            Err(error) if origin == Origin::Kept && is_sequence_missing(&error) => {
                clean_up(&prepared).await;
            }
            Err(error) => {
                let explained = prepared.connection.explain(&error);
                clean_up(&prepared).await;
                if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
                    return Err(explained);
                }
                let context = ask.key.context(ask.mode, pool.address.to_string())?;
                return Err(Error::Timeout {
                    holders: holders(&prepared, &ask, &context).await,
                    context,
                    waited: started.elapsed(),
                    limit: ask.limit,
                    attempts,
                });
            }
        }
    }
}

/// Makes a guard of a grant. An error ends the connection, and the lock with it.
async fn guard_of(
    pool: &Arc<Pool>,
    ask: Ask,
    prepared: Prepared,
    token: i64,
    mut sent: u64,
) -> Result<Guard> {
    pool.highest.record_seen(token);
    if clock::boot_now().saturating_sub(sent) >= PROBE_EVERY.as_millis() as u64 {
        let asked = clock::boot_now();
        let client = prepared.connection.client();
        let proved = timeout(GRACE, client.query_one(&prepared.probe, &[])).await;
        let proved = proved
            .map_err(|_| slow(pool))?
            .map_err(|error| prepared.connection.explain(&error))?;
        same(&prepared, proved.get(0))?;
        sent = asked;
    }
    let token = tokens::token(token)?;
    Ok(Guard::new(pool, ask, prepared, token, sent))
}

/// Advances a counter that was set back, and draws again.
async fn draw_beyond(pool: &Pool, prepared: &Prepared, before: i64) -> Result<i64> {
    let drawing = tokens::draw_beyond(&prepared.connection, prepared.sequence, before);
    timeout(GRACE, drawing).await.map_err(|_| slow(pool))?
}

/// Fails if another session answered than was asked: a pooler shares sessions.
fn same(prepared: &Prepared, answered: i32) -> Result<()> {
    let asked = prepared.connection.pid;
    if answered == asked {
        Ok(())
    } else {
        Err(shared(&format!(
            "session {asked} was asked, and {answered} answered"
        )))
    }
}

fn slow(pool: &Pool) -> Error {
    unreachable(&pool.address, "no answer in time")
}

/// Unlocks everything the session may hold, before it is ended. Either alone would do: unlocking is
/// sooner, ending the connection is certain.
async fn clean_up(prepared: &Prepared) {
    let client = prepared.connection.client();
    let _ = timeout(GRACE, client.batch_execute(UNLOCK_ALL)).await;
}

/// Returns the holders of the lock, or none if the server does not answer in time.
async fn holders(prepared: &Prepared, ask: &Ask, context: &LockContext) -> Vec<Lease> {
    let asking = monitor::holders(&prepared.connection, ask.key, &context.resource);
    match timeout(GRACE, asking).await {
        Ok(Ok(holders)) => holders,
        _ => Vec::new(),
    }
}

/// Returns true if the sequence is gone. The server reports a missing relation, known by number, as
/// an internal error.
fn is_sequence_missing(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INTERNAL_ERROR)
}

/// Returns how long the server waits: the caller's whole time if nearly all of it is left, so that
/// the limit is the same for one caller after the other and need not be set again. It is never 0,
/// which would be no limit.
fn for_server(limit: Duration, left: Duration) -> LimitMs {
    let wait = if left + NEARLY >= limit { limit } else { left };
    let longest = i32::MAX.cast_unsigned();
    let ms = u32::try_from(wait.as_millis()).unwrap_or(longest);
    LimitMs(ms.clamp(1, longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_never_none_and_never_too_long() {
        let alike = |limit| for_server(limit, limit).0;
        assert_eq!(alike(Duration::ZERO), 1);
        assert_eq!(alike(Duration::from_secs(15)), 15_000);
        assert_eq!(alike(Duration::from_secs(u64::MAX / 2)), 2_147_483_647);
    }

    #[test]
    fn a_time_limit_is_what_is_left_unless_hardly_any_is_gone() {
        let limit = Duration::from_secs(15);
        assert_eq!(for_server(limit, limit - NEARLY / 2).0, 15_000);
        assert_eq!(for_server(limit, Duration::from_secs(3)).0, 3_000);
    }
}
