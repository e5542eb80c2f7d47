//! Rows as types: a lease and a waiter as they are in the tables.
//!
//! Times that decide are milliseconds of BOOTTIME, and count only in the boot they were
//! written in. After a reboot the ISO columns say how much time is left.

use std::time::Duration;

use rusqlite::Row;
use serde_json::Value;
use tenure_core::circles::Standing;
use tenure_core::decide::{Bound, Holder, HolderState, Life, Millis, Waiter, Want};
pub(super) use tenure_core::internal::loaded::millis;
use tenure_core::internal::loaded::{self, shown_state};
use tenure_core::leases::grace;
use tenure_core::{Asker, Binding, Error, Lease, Mode, Owner, Result, SessionId, Timestamp, Token};

use super::moment::Moment;
use crate::connection::Durability;

/// The columns of a lease, in the order [`read_lease`] takes them.
pub(super) const LEASE_COLUMNS: &str = "lock_id, resource, mode, upgraded, owner, session, token, \
     acquired_at, lease_expires, heartbeat_ts, binding, state, until_boot, expires_boot, \
     heartbeat_boot, ttl_ms, boot_id, pid, host, command, purpose, metadata, note, upgraded_by, \
     grace_ms, agent";

/// The columns of a waiter, in the order [`read_waiter`] takes them.
pub(super) const WAITER_COLUMNS: &str = "lock_id, place, want, mode, capacity, session, \
     holder_session, owner, since, deadline, deadline_boot, pid, ancestors, lasting, agent";

/// One lease in its table.
pub(super) type LeaseRow = loaded::LeaseRow<()>;
/// One waiter in its table, and the process to be watched for its end.
pub(super) type WaiterRow = loaded::WaiterRow<u32>;

/// Reads the columns of [`LEASE_COLUMNS`].
pub(super) fn read_lease(row: &Row<'_>, moment: &Moment) -> Result<LeaseRow> {
    let bound = word(row, 10)? == "lease";
    let same_boot = word(row, 16)? == moment.boot_id;
    let on_this_clock = |boot: Option<i64>, wall: Option<Timestamp>| match (boot, wall) {
        (Some(boot), _) if same_boot => Millis::try_from(boot).unwrap_or(0),
        (_, Some(wall)) => moment.boot_time_of(wall),
        _ => 0,
    };
    let expires_at = optional(row, 8, |text| text.parse())?;
    let heartbeat_at: Timestamp = parsed(row, 9)?;
    let span = |column| -> Result<Option<Duration>> {
        let ms = number::<Option<i64>>(row, column)?;
        Ok(ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))))
    };
    let (ttl, stale_grace) = (span(15)?, span(24)?);
    let binding = match (bound, ttl) {
        (true, ttl) => {
            let heartbeat = on_this_clock(number(row, 14)?, Some(heartbeat_at));
            let grace = grace(ttl.unwrap_or_default(), stale_grace);
            Bound::Lease {
                expires: on_this_clock(number(row, 13)?, expires_at),
                stale: heartbeat.saturating_add(millis(grace)),
                claimed: false,
            }
        }
        (false, _) => Bound::Session,
    };
    let until = on_this_clock(number(row, 12)?, None);
    let state = match word(row, 11)? {
        "offered" => HolderState::Offered { until },
        "revoking" => HolderState::Revoking { until },
        _ => HolderState::Held,
    };
    let asker = Asker {
        session: parsed(row, 5)?,
        owner: owner(row, 4)?,
        pid: number(row, 17)?,
        host: text(row, 18)?,
        command: text(row, 19)?,
        agent: optional(row, 25, Owner::parse)?,
    };
    let (id, resource, mode) = (parsed(row, 0)?, parsed(row, 1)?, parsed(row, 2)?);
    let mut lease = Lease::granted(id, resource, mode, token(row, 6)?, parsed(row, 7)?, asker);
    lease.expires_at = expires_at.map(|at| match &binding {
        Bound::Lease { expires, .. } => moment.wall_time_of(*expires, at),
        Bound::Session => at,
    });
    lease.heartbeat_at = heartbeat_at;
    if bound {
        lease.binding = Binding::Lease;
    }
    lease.state = shown_state(state, &binding, moment.boot);
    lease.purpose = number(row, 20)?;
    lease.metadata = optional(row, 21, |text| serde_json::from_str::<Value>(text))?;
    let holder = Holder {
        lease: lease.lease.clone(),
        session: lease.session.clone(),
        mode: lease.mode,
        upgraded: number::<Option<bool>>(row, 3)?.unwrap_or(false),
        state,
        binding,
        life: Life::Alive,
    };
    Ok(LeaseRow {
        lease,
        holder,
        ttl,
        stale_grace,
        note: number(row, 22)?,
        upgraded_by: optional(row, 23, SessionId::parse)?,
        process: (),
    })
}

/// Returns the durability that a change of a lease needs. The loss of power ends every session, and
/// all that is bound to one; a lease with time of its own is still there afterwards.
pub(super) fn durability_of(row: &LeaseRow) -> Durability {
    match row.ttl {
        Some(_) => Durability::PowerLoss,
        None => Durability::Crash,
    }
}

/// Reads the columns of [`WAITER_COLUMNS`].
pub(super) fn read_waiter(row: &Row<'_>) -> Result<WaiterRow> {
    let mode: Mode = parsed(row, 3)?;
    let want = match word(row, 2)? {
        "upgrade" => Want::Upgrade,
        _ => Want::Lease {
            mode,
            capacity: number(row, 4)?,
        },
    };
    let deadline = number::<Option<i64>>(row, 10)?;
    Ok(WaiterRow {
        place: number(row, 1)?,
        waiter: Waiter {
            lease: parsed(row, 0)?,
            session: parsed(row, 6)?,
            want,
            deadline: deadline.map_or(Millis::MAX, |at| Millis::try_from(at).unwrap_or(0)),
            life: Life::Alive,
        },
        session: parsed(row, 5)?,
        owner: owner(row, 7)?,
        agent: optional(row, 14, Owner::parse)?,
        since: parsed(row, 8)?,
        deadline: optional(row, 9, |text| text.parse())?,
        process: number(row, 11)?,
        standing: Standing::read(
            number::<Option<String>>(row, 12)?.as_deref(),
            number::<Option<String>>(row, 13)?.as_deref(),
        ),
    })
}

/// Returns a time of BOOTTIME as the value of a column, or `None` for never.
pub(super) fn column(at: Millis) -> Option<i64> {
    i64::try_from(at).ok()
}

/// Returns the value of a column that has a type of SQLite.
pub(super) fn number<T: rusqlite::types::FromSql>(row: &Row<'_>, index: usize) -> Result<T> {
    row.get(index).map_err(|error| odd(row, index, &error))
}

pub(super) fn text(row: &Row<'_>, index: usize) -> Result<String> {
    number(row, index)
}

/// Returns the text of a column, without a copy.
fn word<'r>(row: &'r Row<'_>, index: usize) -> Result<&'r str> {
    let column = row
        .get_ref(index)
        .map_err(|error| odd(row, index, &error))?;
    column.as_str().map_err(|error| odd(row, index, &error))
}

pub(super) fn token(row: &Row<'_>, index: usize) -> Result<Token> {
    let number: i64 = number(row, index)?;
    let token = u64::try_from(number).map_err(|error| odd(row, index, &error))?;
    Token::new(token).map_err(|error| odd(row, index, &error))
}

pub(super) fn owner(row: &Row<'_>, index: usize) -> Result<Owner> {
    Owner::parse(word(row, index)?).map_err(|error| odd(row, index, &error))
}

/// Returns the value of a column that is parsed from text.
pub(super) fn parsed<T>(row: &Row<'_>, index: usize) -> Result<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let text = word(row, index)?;
    text.parse().map_err(|error| odd(row, index, &error))
}

fn optional<T, E: std::fmt::Display>(
    row: &Row<'_>,
    index: usize,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>> {
    let column = row
        .get_ref(index)
        .map_err(|error| odd(row, index, &error))?;
    let text = column
        .as_str_or_null()
        .map_err(|error| odd(row, index, &error))?;
    let parsed = text.map(parse).transpose();
    parsed.map_err(|error| odd(row, index, &error))
}

/// Returns the error for a row that is damaged or was written by another program.
fn odd(row: &Row<'_>, index: usize, problem: &dyn std::fmt::Display) -> Error {
    let column = row.as_ref().column_name(index).unwrap_or("?");
    Error::corrupt("dal_locks", format!("bad {column}: {problem}"))
}
