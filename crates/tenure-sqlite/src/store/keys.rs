//! Keys: a repeated request under its key gets the same leases again.
//!
//! A key is taken before anything else, and is completed in the transaction that binds the leases.
//! An asker that dies before that leaves a key whose session is proved dead: the next asker takes
//! it over.
//!
//! A key whose leases have expired gives them new time in the transaction that finds them. Without
//! that, the asker would be told of a lease that the next request may end.

use rusqlite::params;
use tenure_core::decide::Millis;
use tenure_core::leases::{KEY_KEPT, KeyState, Keyed, spell_leases};
use tenure_core::{Error, Lease, LeaseId, Result, SessionId, Timestamp};

use super::inner::Inner;
use super::load::load_lease;
use super::renew::extend_in_step;
use super::row::{millis, number, parsed, text};
use super::step::Step;
use crate::connection::Durability;
use crate::session_file::Proof;

struct Row {
    request: String,
    session: SessionId,
    /// The leases granted under it, or `None` while they are being asked for.
    leases: Option<String>,
    made_at: Timestamp,
    /// The moment `made_at` on BOOTTIME.
    made: Millis,
}

impl Inner {
    pub(super) async fn begin_key(&self, keyed: &Keyed) -> Result<KeyState> {
        self.sessions.file(&keyed.asker.session)?;
        self.write(Durability::Crash, |step| begin_key_in_step(step, keyed))
            .await
    }

    pub(super) async fn forget_key(&self, keyed: &Keyed) -> Result<()> {
        const DELETE: &str = "DELETE FROM keys \
            WHERE owner = ?1 AND key = ?2 AND session = ?3 AND leases IS NULL";
        let row = [
            keyed.owner.as_str(),
            keyed.key.as_str(),
            keyed.asker.session.as_str(),
        ];
        self.write(Durability::Crash, |step| {
            step.sql
                .execute(DELETE, rusqlite::params_from_iter(row))
                .map(drop)
        })
        .await
    }
}

/// Writes the leases granted under a key. The key must still be the asker's: another session takes
/// it over only after the asker's session was proved dead.
pub(super) fn complete(step: &Step<'_>, keyed: &Keyed, leases: &[LeaseId]) -> Result<()> {
    const UPDATE: &str = "UPDATE keys SET leases = ?4 \
        WHERE owner = ?1 AND key = ?2 AND session = ?3 AND leases IS NULL";
    let row = params![
        keyed.owner.as_str(),
        keyed.key.as_str(),
        keyed.asker.session.as_str(),
        spell_leases(leases)?,
    ];
    match step.sql.execute(UPDATE, row)? {
        1 => Ok(()),
        _ => Err(Error::Internal(format!(
            "key {} is not the asker's",
            keyed.key
        ))),
    }
}

fn begin_key_in_step(step: &mut Step<'_>, keyed: &Keyed) -> Result<KeyState> {
    const UPSERT: &str = "INSERT INTO keys (owner, key, request, session, made_at, made_boot, boot_id) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (owner, key) \
        DO UPDATE SET request = ?3, session = ?4, made_at = ?5, made_boot = ?6, boot_id = ?7, \
        leases = NULL";
    if let Some(row) = find(step, keyed)?
        && step.moment.boot.saturating_sub(row.made) < millis(KEY_KEPT)
        && let Some(state) = state_of(step, keyed, &row)?
    {
        let expired = state.expired();
        let renewed = expired
            .iter()
            .filter_map(|lease| extend_in_step(step, lease, None).transpose());
        let renewed: Vec<Lease> = renewed.collect::<Result<_>>()?;
        return Ok(state.renewed(renewed));
    }
    step.record(&keyed.asker)?;
    let row = params![
        keyed.owner.as_str(),
        keyed.key.as_str(),
        keyed.request,
        keyed.asker.session.as_str(),
        step.moment.wall.to_string(),
        super::row::column(step.moment.boot),
        step.moment.boot_id,
    ];
    step.sql.execute(UPSERT, row)?;
    forget_old(step)?;
    Ok(KeyState::Yours)
}

/// Returns the state of an existing key, or `None` if it may be taken over.
fn state_of(step: &Step<'_>, keyed: &Keyed, row: &Row) -> Result<Option<KeyState>> {
    let Some(leases) = &row.leases else {
        let proof = step.store.sessions.prove(step.sql, &row.session)?;
        return Ok((proof != Proof::Dead).then(|| KeyState::Taken(row.session.clone())));
    };
    let find = |lease: &LeaseId| {
        let row = load_lease(step.sql, lease, &step.moment)?;
        Ok(row.map(|row| row.lease))
    };
    let answered = keyed.answered(&row.request, leases, row.made_at, find);
    answered.map(Some)
}

fn find(step: &Step<'_>, keyed: &Keyed) -> Result<Option<Row>> {
    const SELECT: &str = "SELECT request, session, leases, made_at, made_boot, boot_id FROM keys \
        WHERE owner = ?1 AND key = ?2";
    let key = params![keyed.owner.as_str(), keyed.key.as_str()];
    step.sql.one(SELECT, key, |row| {
        let made_at = parsed(row, 3)?;
        let made_boot: i64 = number(row, 4)?;
        let made = if text(row, 5)? == step.moment.boot_id {
            Millis::try_from(made_boot).unwrap_or(0)
        } else {
            step.moment.boot_time_of(made_at)
        };
        Ok(Row {
            request: text(row, 0)?,
            session: parsed(row, 1)?,
            leases: number(row, 2)?,
            made_at,
            made,
        })
    })
}

/// Deletes a few expired keys, so that the table does not grow for ever. The age of keys of this
/// boot is counted on BOOTTIME, whatever the wall clock says.
fn forget_old(step: &Step<'_>) -> Result<()> {
    const DELETE: &str = "DELETE FROM keys WHERE (owner, key) IN \
        (SELECT owner, key FROM keys WHERE made_at < ?1 AND (boot_id <> ?2 OR made_boot < ?3) \
        ORDER BY made_at LIMIT 10)";
    let kept = i64::try_from(KEY_KEPT.as_millis()).unwrap_or(i64::MAX);
    let oldest = Timestamp::from_millis(step.moment.wall.as_millis().saturating_sub(kept));
    let oldest_boot = step.moment.boot.saturating_sub(millis(KEY_KEPT));
    let row = params![
        oldest.to_string(),
        step.moment.boot_id,
        super::row::column(oldest_boot),
    ];
    step.sql.execute(DELETE, row).map(drop)
}
