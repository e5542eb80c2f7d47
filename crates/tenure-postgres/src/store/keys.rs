//! Keys: a request that is repeated under its key gets the same leases.
//!
//! A key is taken before anything else. It belongs to the asker until the transaction that binds
//! its leases. An asker that dies before that leaves a key whose process is no longer seen
//! (`listener`): the next asker takes it over.
//!
//! # The steps of taking one
//!
//! 1. The row of the process is fresh (`presence`). A crash here leaves only that row, for a few
//!    seconds.
//! 2. One round trip, each statement with a snapshot of its own: the key is inserted if it is new;
//!    its row is locked, so that no other request takes, binds or drops it meanwhile; then the
//!    presence of its asker and the leases it got are read. A read before the lock could be stale,
//!    and a living asker would be taken for dead.
//! 3. The key is taken over, or left as it is, and committed. A crash before leaves it as it was.
//! 4. If leases of an answered key have expired, they get new time in one step on their resources,
//!    which are locked before the key as in `bind`. Between 3 and 4 another request may take their
//!    resources: then all begins anew, and finds that they are over.
//!
//! If the answer to 3 is lost the key is asked for again: a key that is the asker's own by then was
//! taken by this very call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_core::decide::{Ask, Outcome};
use tenure_core::leases::{KeyState, Keyed, spell_leases};
use tenure_core::{Error, Lease, LeaseId, Result, SessionId, Timestamp};
use tokio_postgres::Row;

use super::cleanup::run_to_end;
use super::inner::Inner;
use super::row::{column, leases, parsed, read_leases, text, time};
use super::sql::{Flush, Statement, values};
use super::step::Step;

/// The row of a key.
struct KeyRow {
    request: String,
    session: SessionId,
    /// The leases that were granted under it; `None` while they are being asked for.
    leases: Option<String>,
    made_at: Timestamp,
    /// True if the time of the key is over.
    old: bool,
    /// True if the process of its asker is seen.
    seen: bool,
}

/// Locks the row of a key, to complete it in the same transaction.
pub(super) fn lock(keyed: &Keyed) -> Statement<'static> {
    const SELECT: &str = "SELECT session, leases FROM tenure.keys \
        WHERE owner = $1 AND key = $2 FOR UPDATE";
    let key = values![keyed.owner.to_string(), keyed.key.to_string()];
    Statement::new(SELECT, key)
}

/// Fails if a key, as [`lock`] found it, is no longer the asker's. If its process was not seen for
/// too long, another may have it. A key that names these very leases was completed before, and the
/// answer was lost.
pub(super) fn check_askers(found: &[Row], keyed: &Keyed, leases: &[LeaseId]) -> Result<()> {
    let lost = |by: &str| {
        Error::conflict(
            format!(
                "key {}: its asker was not seen for 15s, and {by}",
                keyed.key
            ),
            "ask again under the same key",
        )
    };
    let Some(row) = found.first() else {
        return Err(lost("it was given up"));
    };
    let (session, named): (SessionId, Option<String>) = (parsed(row, 0)?, column(row, 1)?);
    match named {
        Some(named) if named == spell_leases(leases)? => Ok(()),
        None if session == keyed.asker.session => Ok(()),
        _ => Err(lost("another asked under it")),
    }
}

/// Writes the leases that were granted under a key.
pub(super) fn complete(keyed: &Keyed, leases: &[LeaseId]) -> Result<Statement<'static>> {
    const UPDATE: &str = "UPDATE tenure.keys SET leases = $3 WHERE owner = $1 AND key = $2";
    let row = values![
        keyed.owner.to_string(),
        keyed.key.to_string(),
        spell_leases(leases)?,
    ];
    Ok(Statement::new(UPDATE, row))
}

impl Inner {
    /// Takes a key. If this future is dropped half-way the work runs to its end, and then gives the
    /// key up: a delete before the commit would not see it.
    pub(super) async fn begin_key(&self, keyed: &Keyed) -> Result<KeyState> {
        let (store, keyed) = (self.arc()?, keyed.clone());
        let undo = {
            let (store, keyed) = (Arc::clone(&store), keyed.clone());
            move |taken| async move {
                if matches!(taken, Ok(KeyState::Yours) | Err(_)) {
                    // A key that cannot be given up now ends with its session.
                    drop(store.forget_key(&keyed).await);
                }
            }
        };
        run_to_end(
            self,
            async move { store.begin_key_until_answered(&keyed).await },
            undo,
        )
        .await
    }

    async fn begin_key_until_answered(&self, keyed: &Keyed) -> Result<KeyState> {
        self.presences
            .keep(&self.listener, &keyed.asker.session)
            .await?;
        let asked = AtomicBool::new(false);
        let take = || self.begin_key_once(keyed, asked.swap(true, Ordering::Relaxed));
        loop {
            // `None` means that the key was dropped between two statements.
            if let Some(state) = self.retrying(take).await? {
                return Ok(state);
            }
        }
    }

    async fn begin_key_once(&self, keyed: &Keyed, asked_before: bool) -> Result<Option<KeyState>> {
        const INSERT: &str = "INSERT INTO tenure.keys (owner, key, request, session, process, made_at) \
            VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp()) \
            ON CONFLICT (owner, key) DO NOTHING RETURNING 1";
        const LOCK: &str = "SELECT 1 FROM tenure.keys WHERE owner = $1 AND key = $2 FOR UPDATE";
        const FIND: &str = "SELECT k.request, k.session, k.leases, k.made_at, \
            k.made_at <= pg_catalog.clock_timestamp() - interval '24 hours', EXISTS \
            (SELECT 1 FROM tenure.processes AS p WHERE p.process = k.process \
            AND p.seen_at > pg_catalog.clock_timestamp() - interval '15 seconds') \
            FROM tenure.keys AS k WHERE k.owner = $1 AND k.key = $2";
        const UPDATE: &str = "UPDATE tenure.keys SET request = $3, session = $4, process = $5, \
            made_at = pg_catalog.clock_timestamp(), leases = NULL WHERE owner = $1 AND key = $2";
        const LEASES: &str = leases!(
            "l.lock_id IN (SELECT pg_catalog.jsonb_array_elements_text(k.leases::jsonb) \
             FROM tenure.keys AS k WHERE k.owner = $1 AND k.key = $2)"
        );
        // Deletes a few at a time, and none that another transaction has locked.
        const FORGET_OLD: &str = "DELETE FROM tenure.keys WHERE (owner, key) IN \
            (SELECT owner, key FROM tenure.keys \
            WHERE made_at <= pg_catalog.clock_timestamp() - interval '24 hours' \
            ORDER BY made_at LIMIT 10 FOR UPDATE SKIP LOCKED)";
        let (owner, key) = (keyed.owner.as_str(), keyed.key.as_str());
        let session = keyed.asker.session.as_str();
        let row = || values![owner, key, keyed.request.as_str(), session, &self.process];
        let first = [
            Statement::new(INSERT, row()),
            Statement::new(LOCK, values![owner, key]),
            Statement::new(FIND, values![owner, key]),
            Statement::new(LEASES, values![owner, key]),
        ];
        let (transaction, answers) = self.lend().await?.begin(&first).await?;
        let [inserted, _, found, leases] = &answers[..] else {
            return Err(Error::Internal("an answer is missing".into()));
        };
        let forget_old = || Statement::new(FORGET_OLD, values![]);
        if !inserted.is_empty() {
            transaction.commit(&[forget_old()], Flush::Now).await?;
            return Ok(Some(KeyState::Yours));
        }
        let Some(key_row) = found.first().map(KeyRow::read).transpose()? else {
            transaction.roll_back().await?;
            return Ok(None);
        };
        let its_own =
            asked_before && key_row.leases.is_none() && key_row.session == keyed.asker.session;
        let state = if its_own {
            None
        } else {
            key_row.state(keyed, leases)?
        };
        match state {
            Some(state) => {
                transaction.roll_back().await?;
                if state.expired().is_empty() {
                    Ok(Some(state))
                } else {
                    self.renew_answer(keyed, state).await
                }
            }
            None => {
                let take = [Statement::new(UPDATE, row()), forget_old()];
                transaction.commit(&take, Flush::Now).await?;
                Ok(Some(KeyState::Yours))
            }
        }
    }

    /// Gives the expired leases of an answer new time, all or none. Returns `None` if one of them
    /// is over by now, or the key stands for something else.
    async fn renew_answer(&self, keyed: &Keyed, state: KeyState) -> Result<Option<KeyState>> {
        let KeyState::Done(leases) = &state else {
            return Ok(Some(state));
        };
        let named: Vec<LeaseId> = leases.iter().map(|lease| lease.lease.clone()).collect();
        let (mut step, found) = Step::of_leases(self, &named, Some(lock(keyed))).await?;
        let renewed = if names(&found, &named)? {
            renew_each(&mut step, &state.expired())?
        } else {
            None
        };
        let Some(renewed) = renewed else {
            step.roll_back().await?;
            return Ok(None);
        };
        step.commit().await?;
        Ok(Some(state.renewed(renewed)))
    }

    /// Gives up a key that is still asked for.
    pub(super) async fn forget_key(&self, keyed: &Keyed) -> Result<()> {
        self.forget_key_of(keyed, None).await
    }

    /// Gives up a key that names these leases, or, if there are none, a key that is still asked
    /// for.
    pub(super) async fn forget_key_of(
        &self,
        keyed: &Keyed,
        leases: Option<&[LeaseId]>,
    ) -> Result<()> {
        const DELETE: &str = "DELETE FROM tenure.keys \
            WHERE owner = $1 AND key = $2 AND session = $3 AND leases IS NOT DISTINCT FROM $4";
        let named = leases.map(spell_leases).transpose()?;
        let row = values![
            keyed.owner.as_str(),
            keyed.key.as_str(),
            keyed.asker.session.as_str(),
            named.as_deref(),
        ];
        self.rows(&Statement::new(DELETE, row)).await.map(drop)
    }
}

/// Returns true if a key, as [`lock`] found it, names these leases.
fn names(found: &[Row], leases: &[LeaseId]) -> Result<bool> {
    let Some(row) = found.first() else {
        return Ok(false);
    };
    let named: Option<String> = column(row, 1)?;
    Ok(named == Some(spell_leases(leases)?))
}

/// Gives each lease its last time to live once more. Returns `None` if one of them is over, or is
/// being broken.
fn renew_each(step: &mut Step<'_>, leases: &[LeaseId]) -> Result<Option<Vec<Lease>>> {
    let mut renewed = Vec::with_capacity(leases.len());
    for lease in leases {
        let Some(row) = step.loaded.lease(lease).cloned() else {
            return Ok(None);
        };
        let renew = Ask::renew(lease, row.ttl(), step.store.grace(row.ttl()));
        let decision = step.decide_alone(&row, &renew);
        if let Outcome::Refused(_) = decision.outcome {
            return Ok(None);
        }
        step.write(&decision.changes, None)?;
        renewed.extend(step.loaded.lease(lease).map(|row| row.lease.clone()));
    }
    Ok(Some(renewed))
}

impl KeyRow {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            request: text(row, 0)?,
            session: parsed(row, 1)?,
            leases: column(row, 2)?,
            made_at: time(row, 3)?,
            old: column(row, 4)?,
            seen: column(row, 5)?,
        })
    }

    /// Returns the state of the key, or `None` if it may be taken over.
    fn state(&self, keyed: &Keyed, found: &[Row]) -> Result<Option<KeyState>> {
        if self.old {
            return Ok(None);
        }
        let Some(leases) = &self.leases else {
            return Ok(self.seen.then(|| KeyState::Taken(self.session.clone())));
        };
        let found = read_leases(found)?;
        let find = |lease: &LeaseId| {
            let row = found.iter().find(|row| row.lease.lease == *lease);
            Ok(row.map(|row| row.lease.clone()))
        };
        let answered = keyed.answered(&self.request, leases, self.made_at, find);
        answered.map(Some)
    }
}
