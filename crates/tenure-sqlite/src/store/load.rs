//! Loading what one decision needs: the holders of a resource, and the part of its line that can
//! matter (`tenure_core::internal::loaded`). This keeps a hand-over short when thousands wait.

use std::collections::HashSet;

use rusqlite::params;
use tenure_core::decide::{Bound, Life, Want};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::{LeaseId, Mode, Resource, Result, SessionId, Token};

use super::moment::Moment;
use super::row::{
    LEASE_COLUMNS, LeaseRow, WAITER_COLUMNS, WaiterRow, number, parsed, read_lease, read_waiter,
    token,
};
use super::sessions::Sessions;
use crate::connection::{Rows, Sql};

/// The number of waiters loaded at first, and the factor by which it grows if they are too few.
pub(super) const FRONT: usize = 16;

/// Sessions that were proved dead. A dead session never comes back, so a proof made before a
/// transaction holds inside it.
pub(super) type DeadSessions = HashSet<SessionId>;

/// The holders and the line of a resource.
pub(super) type Loaded = tenure_core::internal::loaded::Loaded<(), u32>;

/// Returns the sessions whose death could let a waiter in: those that keep a lease, and those at
/// the front of the line.
pub(super) fn in_the_way(loaded: &Loaded) -> Vec<SessionId> {
    let holding = loaded.leases.iter().filter(|row| row.ends_with_session());
    let holding = holding.map(|row| &row.lease.session);
    let waiting = loaded.waiters.iter().map(|row| &row.session);
    holding.chain(waiting).cloned().collect()
}

/// Marks the leases and waiters of dead sessions.
pub(super) fn mark_dead(loaded: &mut Loaded, dead: &DeadSessions) {
    for row in &mut loaded.leases {
        if dead.contains(&row.lease.session) {
            row.holder.life = Life::Dead;
        }
    }
    for row in &mut loaded.waiters {
        if dead.contains(&row.session) {
            row.waiter.life = Life::Dead;
        }
    }
}

/// Loads a resource, and at most `front` waiters where the front of its line is wanted. The index
/// on (resource, lock_id) and that on (resource, place) find it; inside a write transaction no
/// other connection changes it.
pub(super) fn load(
    sql: &Sql<'_>,
    sessions: &Sessions,
    resource: &Resource,
    line: LineExtent<'_>,
    front: usize,
    moment: &Moment,
) -> Result<Loaded> {
    let leases = format!("SELECT {LEASE_COLUMNS} FROM dal_locks WHERE resource = ?1");
    let mut leases = sql.query(&leases, params![resource.as_str()], Rows::All, |row| {
        read_lease(row, moment)
    })?;
    for row in &mut leases {
        note_claim(sql, sessions, row, moment)?;
    }
    let mut waiters = Vec::new();
    let mut front_ends = None;
    match line {
        LineExtent::All => waiters = everyone(sql, resource)?,
        LineExtent::Front | LineExtent::FrontAnd(_) => {
            waiters = first(sql, resource, front)?;
            let last = waiters.get(front.saturating_sub(1));
            front_ends = last.map(|row| row.place);
        }
        LineExtent::Around(id, place) => {
            waiters.extend(first(sql, resource, 1)?);
            waiters.extend(before(sql, resource, place)?);
            waiters.extend(waiter_at(sql, id, place)?);
            front_ends = Some(place);
        }
    }
    if front_ends.is_some() {
        // An upgrade goes before all others, wherever its row is. It belongs to a holder.
        let upgradeable = leases.iter().map(|row| &row.lease);
        let upgradeable = upgradeable.filter(|lease| lease.mode == Mode::Upgradeable);
        let about = match line {
            LineExtent::FrontAnd(id) => Some(id),
            LineExtent::All | LineExtent::Front | LineExtent::Around(..) => None,
        };
        for id in upgradeable.map(|lease| &lease.lease).chain(about) {
            waiters.extend(waiter(sql, resource, id)?);
        }
    }
    waiters.sort_by_key(|row| (row.waiter.want != Want::Upgrade, row.place));
    waiters.dedup_by_key(|row| row.place);
    Ok(Loaded {
        leases,
        waiters,
        front_ends,
    })
}

/// Returns the number of waiters ahead of a place, counting no more than `limit`.
pub(super) fn ahead_of(sql: &Sql<'_>, resource: &Resource, place: i64, limit: u32) -> Result<u32> {
    const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM waiters \
        WHERE resource = ?1 AND place < ?2 ORDER BY place DESC LIMIT ?3)";
    let count = sql.one(COUNT, params![resource.as_str(), place, limit], |row| {
        number(row, 0)
    })?;
    Ok(count.unwrap_or_default())
}

/// Returns place and lease of every waiter of a line, in the order they came.
pub(super) fn places(sql: &Sql<'_>, resource: &Resource) -> Result<Vec<(i64, LeaseId)>> {
    const PLACES: &str = "SELECT place, lock_id FROM waiters WHERE resource = ?1 ORDER BY place";
    sql.query(PLACES, params![resource.as_str()], Rows::All, |row| {
        Ok((number(row, 0)?, parsed(row, 1)?))
    })
}

fn everyone(sql: &Sql<'_>, resource: &Resource) -> Result<Vec<WaiterRow>> {
    let all = format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 ORDER BY place");
    sql.query(&all, params![resource.as_str()], Rows::All, read_waiter)
}

fn first(sql: &Sql<'_>, resource: &Resource, limit: usize) -> Result<Vec<WaiterRow>> {
    let first =
        format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 ORDER BY place LIMIT ?2");
    let column = i64::try_from(limit).unwrap_or(i64::MAX);
    let key = params![resource.as_str(), column];
    sql.query(&first, key, Rows::AtMost(limit), read_waiter)
}

fn before(sql: &Sql<'_>, resource: &Resource, place: i64) -> Result<Option<WaiterRow>> {
    let before = format!(
        "SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 AND place < ?2 \
         ORDER BY place DESC LIMIT 1"
    );
    sql.one(&before, params![resource.as_str(), place], read_waiter)
}

/// Returns the waiter for a lease if it is still at its place. The number of a place whose waiter
/// left may be given to the next waiter that comes.
pub(super) fn waiter_at(sql: &Sql<'_>, id: &LeaseId, place: i64) -> Result<Option<WaiterRow>> {
    let one = format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE place = ?1 AND lock_id = ?2");
    sql.one(&one, params![place, id.as_str()], read_waiter)
}

/// Returns the waiter for a lease. No index finds it by its lease, so this reads the whole line.
pub(super) fn waiter(
    sql: &Sql<'_>,
    resource: &Resource,
    id: &LeaseId,
) -> Result<Option<WaiterRow>> {
    let one = format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 AND lock_id = ?2");
    let key = params![resource.as_str(), id.as_str()];
    sql.one(&one, key, read_waiter)
}

/// Returns one lease by its id. Its row alone decides on accepting an offer, binding and renewing.
pub(super) fn load_lease(
    sql: &Sql<'_>,
    lease: &LeaseId,
    moment: &Moment,
) -> Result<Option<LeaseRow>> {
    let one = format!("SELECT {LEASE_COLUMNS} FROM dal_locks WHERE lock_id = ?1");
    sql.one(&one, params![lease.as_str()], |row| read_lease(row, moment))
}

/// Returns the newest token of a resource: zero if it was only ever shared, `None` if it was never
/// granted.
pub(super) fn load_token(sql: &Sql<'_>, resource: &Resource) -> Result<Option<Token>> {
    const TOKEN: &str = "SELECT token FROM resources WHERE resource = ?1";
    sql.one(TOKEN, params![resource.as_str()], |row| token(row, 0))
}

/// Notes whether an active job claims an expired lease. A claim has no effect on a lease that has
/// not expired.
fn note_claim(
    sql: &Sql<'_>,
    sessions: &Sessions,
    row: &mut LeaseRow,
    moment: &Moment,
) -> Result<()> {
    if let Bound::Lease {
        expires, claimed, ..
    } = &mut row.holder.binding
        && *expires <= moment.boot
    {
        *claimed = super::claims::claimant(sql, sessions, &row.lease.lease)?.is_some();
    }
    Ok(())
}
