//! Rows as types: the form of a lease and a waiter in the tables.
//!
//! The presence of a process is part of a row: the statement that reads the row works it out by the
//! clock of the database ([`PRESENT_FOR`](super::listener::PRESENT_FOR)). An offer and a waiter end
//! with their process; a claim counts for as long as its process is there; everything else has its
//! own time.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tenure_core::circles::Standing;
use tenure_core::decide::{Bound, Holder, HolderState, Life, Millis, Waiter, Want};
pub(super) use tenure_core::internal::loaded::millis;
use tenure_core::internal::loaded::{self, shown_state};
use tenure_core::leases::grace;
use tenure_core::{Asker, Binding, Error, Lease, Mode, Owner, Result, SessionId, Timestamp, Token};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::moment::{Moment, shown};

/// Reads leases and the clock; a condition on `l` and the rest of the statement follow. There is
/// always at least one row: without leases it has the time alone. See [`read_lease`].
macro_rules! leases {
    ($($rest:expr),+) => {
        concat!(
            "WITH n AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS now) \
             SELECT n.now, l.lock_id, l.resource, l.mode, l.upgraded, l.owner, l.session, l.token, \
             l.acquired_at, l.lease_expires, l.heartbeat_ts, l.state, l.until, l.ttl_ms, l.pid, l.host, \
             l.command, l.purpose, l.metadata, l.note, l.upgraded_by, l.process, \
             l.lease_expires IS NOT NULL OR EXISTS (SELECT 1 FROM tenure.processes p \
                 WHERE p.process = l.process AND p.seen_at > n.now - interval '15 seconds'), \
             l.lease_expires <= n.now AND EXISTS (SELECT 1 FROM tenure.lease_claims c \
                 JOIN tenure.processes p ON p.process = c.process \
                 WHERE c.lock_id = l.lock_id AND p.seen_at > n.now - interval '15 seconds'), \
             l.grace_ms, l.agent \
             FROM n LEFT JOIN tenure.dal_locks l ON ",
            $($rest),+
        )
    };
}
pub(super) use leases;

/// The columns of a waiter `w`, in the order [`read_waiter`] takes them.
macro_rules! waiter_columns {
    () => {
        "w.lock_id, w.place, w.resource, w.want, w.mode, w.capacity, w.session, w.holder_session, w.process, \
         w.owner, w.since, w.deadline, EXISTS (SELECT 1 FROM tenure.processes p \
             WHERE p.process = w.process \
             AND p.seen_at > pg_catalog.clock_timestamp() - interval '15 seconds'), w.ancestors, w.lasting, \
         w.agent"
    };
}
pub(super) use waiter_columns;

/// One lease in its table, and the process that is notified about it and has its guard. The process
/// is empty for a lease without a guard (`bind`).
pub(super) type LeaseRow = loaded::LeaseRow<String>;
/// One waiter in its table, and the process that waits: it is notified, and its presence keeps the
/// place in line.
pub(super) type WaiterRow = loaded::WaiterRow<String>;

/// Reads the lease of a row of [`leases!`]. Returns `None` for the row that has only the time.
pub(super) fn read_lease(row: &Row) -> Result<Option<LeaseRow>> {
    let Some(id) = column::<Option<&str>>(row, 1)? else {
        return Ok(None);
    };
    let moment = Moment::read(row, 0)?;
    let expires = instant(row, 9)?;
    let heartbeat: Millis = instant(row, 10)?.unwrap_or(0);
    let until = instant(row, 12)?.unwrap_or(0);
    let ttl = duration(row, 13)?;
    let stale_grace = column::<Option<i64>>(row, 24)?;
    let stale_grace = stale_grace.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let state = match column::<&str>(row, 11)? {
        "offered" => HolderState::Offered { until },
        "revoking" => HolderState::Revoking { until },
        _ => HolderState::Held,
    };
    let binding = match expires {
        None => Bound::Session,
        Some(expires) => Bound::Lease {
            expires,
            stale: heartbeat.saturating_add(millis(grace(ttl, stale_grace))),
            claimed: column::<Option<bool>>(row, 23)?.unwrap_or(false),
        },
    };
    let asker = Asker {
        session: parsed(row, 6)?,
        owner: owner(row, 5)?,
        pid: number(row, 14)?,
        host: text(row, 15)?,
        command: text(row, 16)?,
        agent: optional(row, 25, Owner::parse)?,
    };
    let id = id.parse().map_err(|error| odd(row, 1, &error))?;
    let (resource, mode) = (parsed(row, 2)?, parsed(row, 3)?);
    let mut lease = Lease::granted(id, resource, mode, token(row, 7)?, time(row, 8)?, asker);
    lease.expires_at = expires.map(shown);
    lease.heartbeat_at = shown(heartbeat);
    lease.binding = Binding::Lease;
    lease.state = shown_state(state, &binding, moment.now());
    lease.purpose = column(row, 17)?;
    lease.metadata = optional(row, 18, |text| serde_json::from_str::<Value>(text))?;
    let holder = Holder {
        lease: lease.lease.clone(),
        session: lease.session.clone(),
        mode: lease.mode,
        upgraded: column(row, 4)?,
        state,
        binding,
        life: life(row, 22)?,
    };
    Ok(Some(LeaseRow {
        lease,
        holder,
        ttl: Some(ttl),
        stale_grace,
        note: column(row, 19)?,
        upgraded_by: optional(row, 20, SessionId::parse)?,
        process: text(row, 21)?,
    }))
}

/// Reads all leases that a statement of [`leases!`] found.
pub(super) fn read_leases(rows: &[Row]) -> Result<Vec<LeaseRow>> {
    rows.iter()
        .filter_map(|row| read_lease(row).transpose())
        .collect()
}

/// Returns true if a guard has the lease, or will have it.
pub(super) fn has_guard(row: &LeaseRow) -> bool {
    !row.process.is_empty()
}

/// Reads a row of [`waiter_columns!`].
pub(super) fn read_waiter(row: &Row) -> Result<WaiterRow> {
    let mode: Mode = parsed(row, 4)?;
    let capacity = column::<Option<i64>>(row, 5)?;
    let want = match column::<&str>(row, 3)? {
        "upgrade" => Want::Upgrade,
        _ => Want::Lease {
            mode,
            capacity: capacity.map(|capacity| u32::try_from(capacity).unwrap_or(u32::MAX)),
        },
    };
    let deadline = instant(row, 11)?;
    Ok(WaiterRow {
        place: column(row, 1)?,
        waiter: Waiter {
            lease: parsed(row, 0)?,
            session: parsed(row, 7)?,
            want,
            deadline: deadline.unwrap_or(Millis::MAX),
            life: life(row, 12)?,
        },
        session: parsed(row, 6)?,
        process: text(row, 8)?,
        owner: owner(row, 9)?,
        agent: optional(row, 15, Owner::parse)?,
        since: time(row, 10)?,
        deadline: deadline.map(shown),
        standing: Standing::read(column(row, 13)?, column(row, 14)?),
    })
}

/// Returns a token as a column holds it.
pub(super) fn signed(token: Token) -> i64 {
    token.get().cast_signed()
}

/// Reads a column of a type of PostgreSQL.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(|error| odd(row, index, &error))
}

/// Reads a column with a text.
pub(super) fn text(row: &Row, index: usize) -> Result<String> {
    column(row, index)
}

/// Reads a column with a time, for people.
pub(super) fn time(row: &Row, index: usize) -> Result<Timestamp> {
    Ok(Moment::read(row, index)?.wall())
}

/// Reads a column with a token.
pub(super) fn token(row: &Row, index: usize) -> Result<Token> {
    let number: i64 = column(row, index)?;
    let token = u64::try_from(number).map_err(|error| odd(row, index, &error))?;
    Token::new(token).map_err(|error| odd(row, index, &error))
}

/// Reads a column with an owner.
pub(super) fn owner(row: &Row, index: usize) -> Result<Owner> {
    Owner::parse(column(row, index)?).map_err(|error| odd(row, index, &error))
}

/// Reads a column whose text is parsed into a type of ours.
pub(super) fn parsed<T>(row: &Row, index: usize) -> Result<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let text: &str = column(row, index)?;
    text.parse().map_err(|error| odd(row, index, &error))
}

fn optional<T, E: std::fmt::Display>(
    row: &Row,
    index: usize,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>> {
    let text: Option<&str> = column(row, index)?;
    let parsed = text.map(parse).transpose();
    parsed.map_err(|error| odd(row, index, &error))
}

/// Reads a column with a time on the clock that decides.
fn instant(row: &Row, index: usize) -> Result<Option<Millis>> {
    let time: Option<SystemTime> = column(row, index)?;
    Ok(time.map(|time| Moment::from(time).now()))
}

fn duration(row: &Row, index: usize) -> Result<Duration> {
    let millis: i64 = column(row, index)?;
    Ok(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

fn number(row: &Row, index: usize) -> Result<u32> {
    let number: i64 = column(row, index)?;
    u32::try_from(number).map_err(|error| odd(row, index, &error))
}

/// Reads a column that is true if the process is alive.
fn life(row: &Row, index: usize) -> Result<Life> {
    Ok(match column(row, index)? {
        true => Life::Alive,
        false => Life::Dead,
    })
}

/// Returns the error for a row that another program wrote, or a damaged one.
fn odd(row: &Row, index: usize, problem: &dyn std::fmt::Display) -> Error {
    let column = row.columns().get(index).map_or("?", |column| column.name());
    Error::corrupt("tenure.dal_locks", format!("bad {column}: {problem}"))
}
