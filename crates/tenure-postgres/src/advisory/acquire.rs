//! How a lock is taken.
//!
//! 1. The session enters the key in its book. It is there already: re-entry, at once.
//! 2. A clean connection is taken from the pool, or opened. None in time: exhausted.
//! 3. One statement sets its own time limit, takes the lock and draws the token (see [`sql`](super::sql)).
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
//! | no answer in time | as if dropped |

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Mode, Place, Result};
use tenure_files::clock;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::guard::{Grant, Guard};
use super::pool::{Origin, Pool};
use super::reentry::Claim;
use super::sql::{Prepared, Step, UNLOCK_ALL};
use super::standing::{PROBE_EVERY, Probe};
use super::{Key, tokens};
use crate::connect::left;
use crate::fault::unreachable;

/// What the server gets on top of the caller's time before it counts as gone.
const GRACE: Duration = Duration::from_secs(1);

/// What is asked for.
pub(super) struct Ask {
    pub(super) step: Step,
    pub(super) key: Key,
    pub(super) mode: Mode,
    pub(super) claim: Claim,
    pub(super) place: Box<Place>,
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
        attempts += 1;
        let sent = clock::boot_now();
        let limit_ms = milliseconds(left(deadline));
        let granting = prepared.grant(ask.step, ask.mode, ask.key, &limit_ms);
        let answer = timeout(left(deadline) + GRACE, granting).await;
        let Ok(answer) = answer else {
            return Err(unreachable(pool.address(), "no answer in time"));
        };
        match answer {
            Ok(Some(row)) => return settle(pool, ask, prepared, &row, sent).await.map(Some),
            Ok(None) => {
                // Not granted, said without an error: the session holds nothing.
                pool.give_back(prepared);
                return Ok(None);
            }
            Err(_) if origin == Origin::Kept && prepared.connection.is_over() => {}
            Err(error) => {
                let explained = prepared.connection.explain(&error);
                clean_up(prepared).await;
                if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
                    return Err(explained);
                }
                return Err(Error::Timeout {
                    place: ask.place,
                    waited: started.elapsed(),
                    limit: ask.limit,
                    attempts,
                    holders: Vec::new(),
                });
            }
        }
    }
}

/// Makes a guard of a grant. On any error the connection ends, and the lock with it.
async fn settle(
    pool: &Arc<Pool>,
    ask: Ask,
    mut prepared: Prepared,
    row: &Row,
    mut sent: u64,
) -> Result<Guard> {
    let pid = prepared.connection.pid();
    let told = |error: &tokio_postgres::Error| crate::fault::explain(pool.address(), error);
    let same = |answered: i32| match answered == pid {
        true => Ok(()),
        false => Err(super::not_the_same(pid, answered)),
    };
    let slow = || unreachable(pool.address(), "no answer in time");
    same(row.get(0))?;
    let token = match ask.mode {
        Mode::Write => row.get(1),
        _ => {
            let asked = clock::boot_now();
            let noted = timeout(GRACE, prepared.note_reader(ask.key)).await;
            let (answered, token) = noted.map_err(|_| slow())?.map_err(|error| told(&error))?;
            same(answered)?;
            sent = asked;
            token
        }
    };
    let statement = timeout(GRACE, prepared.probe()).await;
    let statement = statement
        .map_err(|_| slow())?
        .map_err(|error| told(&error))?;
    let client = Arc::clone(prepared.connection.client());
    if clock::boot_now().saturating_sub(sent) >= PROBE_EVERY.as_millis() as u64 {
        let asked = clock::boot_now();
        let proved = timeout(GRACE, client.query_one(&statement, &[])).await;
        same(
            proved
                .map_err(|_| slow())?
                .map_err(|error| told(&error))?
                .get(0),
        )?;
        sent = asked;
    }
    let probe = Probe {
        client,
        statement,
        pid,
        over: prepared.connection.over(),
        cutter: prepared.connection.cutter(),
    };
    let grant = Grant {
        prepared,
        probe,
        claim: ask.claim,
        key: ask.key,
        mode: ask.mode,
        token: tokens::token(token)?,
        sent,
        place: ask.place,
    };
    Ok(Guard::new(pool, grant))
}

/// Unlocks whatever the session may hold, and ends it. Either alone would do: the first is sooner, the second is certain.
async fn clean_up(prepared: Prepared) {
    let client = prepared.connection.client();
    let _ = timeout(GRACE, client.batch_execute(UNLOCK_ALL)).await;
}

/// A time limit as the server takes it: 0 would be none at all.
fn milliseconds(limit: Duration) -> String {
    let longest = u128::from(i32::MAX.cast_unsigned());
    limit.as_millis().clamp(1, longest).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_never_none_and_never_too_long() {
        assert_eq!(milliseconds(Duration::ZERO), "1");
        assert_eq!(milliseconds(Duration::from_secs(15)), "15000");
        assert_eq!(milliseconds(Duration::MAX), "2147483647");
    }
}
