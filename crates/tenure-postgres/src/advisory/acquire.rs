//! How a lock is taken.
//!
//! 1. The session enters the key in its book. It is there already: re-entry, at once.
//! 2. A clean connection is taken from the pool, or opened. None in time: exhausted.
//! 3. One statement takes the lock and draws the token (see [`sql`](super::sql) and [`tokens`]).
//! 4. The reply must come from the session that was asked.
//! 5. An answer to a question older than a probe is proved once more, so that a guard never
//!    begins with an old truth.
//!
//! | when | what happens |
//! |---|---|
//! | the future is dropped, at any step | the connection goes with it: a waiting statement is cancelled, a granted lock freed |
//! | the process dies | the server ends the session, and frees the lock |
//! | the statement fails in step 3 | nobody knows whether the lock was granted before (PostgreSQL's bug 17686): everything the session may hold is unlocked, and the connection ended, never pooled |
//! | a kept connection turns out to have ended | a session that is over holds nothing: the next one is asked |
//! | a kept connection draws from a sequence that is gone | it is ended, and the next one asked: a new one knows the new sequence |
//! | no answer in time | as if dropped |

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Lease, Mode, Place, Result};
use tenure_files::clock;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::guard::{Grant, Guard};
use super::pool::{InHand, Origin, Pool};
use super::reentry::Claim;
use super::sql::{Answer, LimitMs, Prepared, Step, UNLOCK_ALL};
use super::standing::PROBE_EVERY;
use super::{Key, monitor, tokens};
use crate::connect::left;
use crate::fault::unreachable;

/// What the server gets on top of the caller's time before it counts as gone.
const GRACE: Duration = Duration::from_secs(1);

/// What may be gone of the caller's time without the server being told.
const NEARLY: Duration = Duration::from_millis(20);

/// What is asked for.
pub(super) struct Ask {
    pub(super) step: Step,
    pub(super) key: Key,
    pub(super) mode: Mode,
    pub(super) claim: Claim,
    /// The caller's time.
    pub(super) limit: Duration,
}

/// Takes the lock; None if it is held and was not to be waited for.
pub(super) async fn acquire(pool: &Arc<Pool>, ask: Ask) -> Result<Option<Guard>> {
    let started = Instant::now();
    let deadline = started + ask.limit;
    let mut attempts = 0;
    loop {
        let (mut prepared, origin) = pool.take(deadline).await?;
        let in_hand = pool.in_hand();
        attempts += 1;
        let sent = clock::boot_now();
        let before = pool.highest().get();
        let limit = for_server(ask.limit, left(deadline));
        let granting = prepared.grant(ask.step, ask.mode, ask.key, limit);
        let answer = timeout(left(deadline) + GRACE, granting).await;
        let Ok(answer) = answer else {
            return Err(unreachable(pool.address(), "no answer in time"));
        };
        match answer {
            Ok(Answer { pid, token }) => {
                same(&prepared, pid)?;
                let Some(token) = token else {
                    // Not granted, said without an error: the session holds nothing.
                    pool.give_back(prepared);
                    return Ok(None);
                };
                let token = match ask.mode == Mode::Write && token <= before {
                    false => token,
                    true => draw_beyond(pool, &prepared, before).await?,
                };
                let guard = settle(pool, ask, (prepared, in_hand), token, sent).await;
                return guard.map(Some);
            }
            Err(_) if origin == Origin::Kept && prepared.connection.is_over() => {}
            Err(error) if origin == Origin::Kept && no_sequence(&error) => {
                clean_up(&prepared).await;
            }
            Err(error) => {
                let explained = prepared.connection.explain(&error);
                clean_up(&prepared).await;
                if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
                    return Err(explained);
                }
                let place = ask.key.place(ask.mode, pool.address())?;
                return Err(Error::Timeout {
                    holders: holders(&prepared, &ask, &place).await,
                    place,
                    waited: started.elapsed(),
                    limit: ask.limit,
                    attempts,
                });
            }
        }
    }
}

/// Makes a guard of a grant. On any error the connection ends, and the lock with it.
async fn settle(
    pool: &Arc<Pool>,
    ask: Ask,
    (prepared, in_hand): (Prepared, InHand),
    token: i64,
    mut sent: u64,
) -> Result<Guard> {
    pool.highest().saw(token);
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
    let grant = Grant {
        prepared,
        in_hand,
        claim: ask.claim,
        key: ask.key,
        mode: ask.mode,
        token: tokens::token(token)?,
        sent,
    };
    Ok(Guard::new(pool, grant))
}

/// Somebody set the counter back: puts it ahead, and draws again.
async fn draw_beyond(pool: &Pool, prepared: &Prepared, before: i64) -> Result<i64> {
    let drawing = tokens::draw_beyond(&prepared.connection, prepared.sequence, before);
    timeout(GRACE, drawing).await.map_err(|_| slow(pool))?
}

fn same(prepared: &Prepared, answered: i32) -> Result<()> {
    let asked = prepared.connection.pid();
    match answered == asked {
        true => Ok(()),
        false => Err(super::not_the_same(asked, answered)),
    }
}

fn slow(pool: &Pool) -> Error {
    unreachable(pool.address(), "no answer in time")
}

/// Unlocks whatever the session may hold, before it is ended. Either alone would do: the first is sooner, the second is certain.
async fn clean_up(prepared: &Prepared) {
    let client = prepared.connection.client();
    let _ = timeout(GRACE, client.batch_execute(UNLOCK_ALL)).await;
}

/// Who is in the way, as far as the server says so in time.
async fn holders(prepared: &Prepared, ask: &Ask, place: &Place) -> Vec<Lease> {
    let asking = monitor::holders(&prepared.connection, ask.key, &place.resource);
    match timeout(GRACE, asking).await {
        Ok(Ok(holders)) => holders,
        _ => Vec::new(),
    }
}

/// The server has no better word for a relation that it knows by number, and that is gone.
fn no_sequence(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INTERNAL_ERROR)
}

/// How long the server waits. The caller's own time where nearly all of it is left, so that it is the same for
/// one caller after the other and need not be set anew; 0 would be no limit at all.
fn for_server(limit: Duration, left: Duration) -> LimitMs {
    let wait = match left + NEARLY >= limit {
        true => limit,
        false => left,
    };
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
