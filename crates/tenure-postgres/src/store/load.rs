//! Everything one decision needs: the locked row of the resource, its holders, and the part of its
//! line that matters.
//!
//! # The order of statements
//!
//! 1. The row of the resource is locked. Every transaction that changes anything about a resource
//!    locks it, so from here on nothing changes.
//! 2. Only then are the clock, the holders and the line read, by statements of their own: under
//!    READ COMMITTED each sees the changes that were committed before it began. The first statement
//!    itself may see a state from before its lock.
//!
//! All statements are sent together. Each of them finds a lease by its id: its resource never
//! changes, and if it ended before 1, then 2 finds nothing, and there is nothing to decide.
//!
//! # The line
//!
//! A decision needs the front of the line (`tenure_core::internal::loaded`), which keeps a hand-over short
//! with hundreds of waiters.

use tenure_core::decide::{State, Want};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::{LeaseId, Resource, Result, Token};
use tokio_postgres::Row;

use super::inner::Inner;
use super::moment::Moment;
use super::row::{
    LeaseRow, WaiterRow, column, leases, parsed, read_lease, read_leases, read_waiter, token,
    waiter_columns,
};
use super::sql::{Sql, Statement, values};

/// The number of waiters of a line that are loaded at first.
const FRONT: i64 = 16;

/// The resource of a lease, in a statement that has the id of the lease as its first value.
macro_rules! resource_of {
    () => {
        "(SELECT h.resource FROM tenure.dal_locks h WHERE h.lock_id = $1)"
    };
}

/// The row of a resource, locked until the end of the transaction.
macro_rules! lock {
    ($resource:expr) => {
        concat!(
            "SELECT r.resource, r.token, r.alone FROM tenure.resources r WHERE r.resource = ",
            $resource,
            " FOR UPDATE"
        )
    };
}

/// The front of a line, the waiter that is asked about, and every holder that waits to upgrade.
macro_rules! line {
    ($resource:expr) => {
        concat!(
            "WITH w AS ((SELECT w.* FROM tenure.waiters w WHERE w.resource = ", $resource,
            " ORDER BY w.place LIMIT $2) UNION ALL \
             (SELECT w.* FROM tenure.waiters w WHERE w.lock_id = $3 AND w.resource = ", $resource,
            ") UNION ALL (SELECT w.* FROM tenure.dal_locks l JOIN tenure.waiters w ON w.lock_id = l.lock_id \
             WHERE l.resource = ", $resource, ")) SELECT ", waiter_columns!(), " FROM w"
        )
    };
}

/// The target of a step: a resource, or the resource of a lease.
#[derive(Debug, Clone, Copy)]
pub(super) enum StepTarget<'a> {
    /// A resource by its name.
    Resource(&'a Resource),
    /// The resource of a lease.
    Lease(&'a LeaseId),
}

/// The row of a resource, which is locked.
#[derive(Debug, Clone)]
pub(super) struct ResourceRow {
    pub(super) resource: Resource,
    /// The token of the last exclusive grant, zero if there was none.
    pub(super) token: Token,
    /// The column `alone`, the shortcut for the empty cases; see [`alone`].
    pub(super) alone: Option<String>,
}

/// The holders and the line of a resource.
pub(super) type Loaded = tenure_core::internal::loaded::Loaded<String, String>;

/// Returns the first statements of a step: they lock the row of a resource, read the clock, and
/// load holders and line.
pub(super) fn load<'a>(target: StepTarget<'a>, extent: LineExtent<'a>) -> [Statement<'a>; 3] {
    const LOCK: &str = lock!("$1");
    const LOCK_OF_LEASE: &str = lock!(resource_of!());
    const LEASES: &str = leases!("l.resource = $1");
    const LEASES_OF_LEASE: &str = leases!("l.resource = ", resource_of!());
    const LINE_OF_LEASE: &str = line!(resource_of!());
    match target {
        StepTarget::Resource(resource) => [
            Statement::new(LOCK, values![resource.as_str()]),
            Statement::new(LEASES, values![resource.as_str()]),
            load_line(resource, extent),
        ],
        StepTarget::Lease(lease) => {
            let (limit, target) = limits(extent);
            [
                Statement::new(LOCK_OF_LEASE, values![lease.as_str()]),
                Statement::new(LEASES_OF_LEASE, values![lease.as_str()]),
                Statement::new(LINE_OF_LEASE, values![lease.as_str(), limit, target]),
            ]
        }
    }
}

/// Returns the statement that loads a line within a step.
pub(super) fn load_line<'a>(resource: &'a Resource, extent: LineExtent<'a>) -> Statement<'a> {
    const LINE: &str = line!("$1");
    let (limit, target) = limits(extent);
    Statement::new(LINE, values![resource.as_str(), limit, target])
}

fn limits(extent: LineExtent<'_>) -> (Option<i64>, Option<&str>) {
    match extent {
        LineExtent::All => (None, None),
        LineExtent::Front => (Some(FRONT), None),
        LineExtent::FrontAnd(id) | LineExtent::Around(id, _) => (Some(FRONT), Some(id.as_str())),
    }
}

/// Reads the answers to the statements of [`load`]. Returns `None` if the resource, or the lease,
/// is not there.
pub(super) fn read(
    target: StepTarget<'_>,
    answers: &[Vec<Row>],
    extent: LineExtent<'_>,
) -> Result<Option<(ResourceRow, Moment, Loaded)>> {
    let [locked, leases, waiters] = answers else {
        return Ok(None);
    };
    let (Some(locked), Some(first)) = (locked.first(), leases.first()) else {
        return Ok(None);
    };
    let row = ResourceRow {
        resource: parsed(locked, 0)?,
        token: token(locked, 1)?,
        alone: column(locked, 2)?,
    };
    let moment = Moment::read(first, 0)?;
    let leases = read_leases(leases)?;
    let (waiters, front_ends) = read_line(waiters, extent)?;
    let loaded = Loaded {
        leases,
        waiters,
        front_ends,
    };
    match target {
        StepTarget::Lease(lease) if loaded.lease(lease).is_none() => Ok(None),
        _ => Ok(Some((row, moment, loaded))),
    }
}

/// Reads the answer to [`load_line`]: the waiters in the order they are served, and the last place
/// of the front if there may be more behind it.
pub(super) fn read_line<'r>(
    rows: impl IntoIterator<Item = &'r Row>,
    extent: LineExtent<'_>,
) -> Result<(Vec<WaiterRow>, Option<i64>)> {
    let waiters = rows.into_iter().map(read_waiter);
    let mut waiters = waiters.collect::<Result<Vec<WaiterRow>>>()?;
    // A waiter that is found twice is in the front. Without duplicates the front is at most as long
    // as its limit, and a waiter behind it was asked for by name.
    waiters.sort_by_key(|row| row.place);
    waiters.dedup_by_key(|row| row.place);
    let last = waiters.get(FRONT as usize - 1).map(|row| row.place);
    let front_ends = last.filter(|_| !matches!(extent, LineExtent::All));
    waiters.sort_by_key(|row| row.waiter.want != Want::Upgrade);
    Ok((waiters, front_ends))
}

/// Returns the column `alone` for a state. It is '' without holder and waiter; the id of the only
/// lease, if that is held and no request waits; that id with a plus behind it, if requests wait,
/// but none to upgrade the lease; and `None` in every other case. It is never false: the statements
/// that rely on it read nothing else.
///
/// A line that is loaded in part is not empty, and its waiter for an upgrade is among the loaded
/// ones.
pub(super) fn alone(state: &State, partial: bool) -> Option<String> {
    use tenure_core::decide::HolderState;
    let nobody_waits = state.waiters.is_empty();
    if partial && nobody_waits || state.waiting_upgrade().is_some() {
        return None;
    }
    match (state.holders.as_slice(), nobody_waits) {
        ([], true) => Some(String::new()),
        ([one], true) if one.state == HolderState::Held => Some(one.lease.to_string()),
        ([one], false) if one.state == HolderState::Held => Some(format!("{}+", one.lease)),
        _ => None,
    }
}

/// Reads one lease by its id, outside a step: it may have changed when this returns.
pub(super) async fn load_lease(sql: &Sql, lease: &LeaseId) -> Result<Option<(LeaseRow, Moment)>> {
    let row = sql.row(&lease_by_id(lease)).await?;
    let Some(row) = row else { return Ok(None) };
    let moment = Moment::read(&row, 0)?;
    Ok(read_lease(&row)?.map(|lease| (lease, moment)))
}

/// Returns the statement that reads one lease by its id.
pub(super) fn lease_by_id(lease: &LeaseId) -> Statement<'_> {
    const ONE: &str = leases!("l.lock_id = $1");
    Statement::new(ONE, values![lease.as_str()])
}

impl Inner {
    /// Returns the newest token of a resource, zero if it was only ever shared, or `None` if it was
    /// never granted.
    pub(super) async fn token(&self, resource: &Resource) -> Result<Option<Token>> {
        const TOKEN: &str = "SELECT token FROM tenure.resources WHERE resource = $1";
        let read = || self.row(TOKEN, values![resource.as_str()]);
        let row = self.retrying(read).await?;
        row.map(|row| token(&row, 0)).transpose()
    }
}
