//! Everything one decision needs: the row of the resource, locked, its holders, and of its line as much as can have a say.
//!
//! # The order of statements
//!
//! 1. The row of the resource is locked. Whoever changes anything about a resource has it, so from here on nothing changes.
//! 2. Only then are the clock, the holders and the line read, by statements of their own: under READ COMMITTED each
//!    sees what was committed before it began. What the first statement itself saw may be older than its lock.
//!
//! All are sent together. A lease is found by its id in each of them: its resource never changes, and if it ended before 1
//! nothing is found in 2, and there is nothing to decide.
//!
//! # The line
//!
//! It is decided from its front, and the first that does not fit ends it. So a decision needs the front, and whoever
//! it is about; only if it takes the whole of that away is the rest loaded, and decided upon again. With
//! hundreds of waiters this is what keeps a hand-over short.

use tenure_core::decide::{Change, Decision, State, Want};
use tenure_core::{LeaseId, Resource, Result, Token};
use tokio_postgres::Row;

use super::inner::Inner;
use super::moment::Moment;
use super::row::{LeaseRow, WaiterRow, column, leases, parsed, token, waiter_columns};
use super::sql::{Asked, Sql, values};

/// So much of a line is loaded at first.
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

/// The front of a line, whoever is asked about, and every holder that waits to upgrade.
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

/// How much of a line is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line<'a> {
    /// All of it.
    All,
    /// Its front.
    Front,
    /// Its front, and the waiter for this lease.
    FrontAnd(&'a LeaseId),
}

/// What a step is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum About<'a> {
    /// A resource.
    Resource(&'a Resource),
    /// The resource of a lease.
    Lease(&'a LeaseId),
}

/// The row of a resource, which is locked.
#[derive(Debug, Clone)]
pub(super) struct ResourceRow {
    pub(super) resource: Resource,
    /// Of the last exclusive grant.
    pub(super) token: Token,
    /// The shortcut for the empty cases; see [`alone`].
    pub(super) alone: Option<String>,
}

/// The holders and the line of a resource, as rows and as what is decided upon.
#[derive(Debug, Clone, Default)]
pub(super) struct Loaded {
    pub(super) leases: Vec<LeaseRow>,
    /// In the order they are served: an upgrade stands before all others.
    pub(super) waiters: Vec<WaiterRow>,
    /// Behind this place there may be more waiters than these.
    pub(super) front_ends: Option<i64>,
}

impl Loaded {
    /// One lease alone: enough to decide what nobody else has a say in.
    pub(super) fn alone(row: &LeaseRow) -> Self {
        Self {
            leases: vec![row.clone()],
            ..Self::default()
        }
    }

    /// What is decided upon.
    pub(super) fn state(&self) -> State {
        State {
            holders: self.leases.iter().map(|row| row.holder.clone()).collect(),
            waiters: self.waiters.iter().map(|row| row.waiter.clone()).collect(),
        }
    }

    pub(super) fn lease(&self, id: &LeaseId) -> Option<&LeaseRow> {
        self.leases.iter().find(|row| row.lease.lease == *id)
    }

    pub(super) fn lease_mut(&mut self, id: &LeaseId) -> Option<&mut LeaseRow> {
        self.leases.iter_mut().find(|row| row.lease.lease == *id)
    }

    pub(super) fn waiter(&self, id: &LeaseId) -> Option<&WaiterRow> {
        self.waiters.iter().find(|row| row.waiter.lease == *id)
    }

    /// All that are there: who holds, and who waits.
    pub(super) fn ids(&self) -> impl Iterator<Item = &LeaseId> {
        let held = self.leases.iter().map(|row| &row.lease.lease);
        held.chain(self.waiters.iter().map(|row| &row.waiter.lease))
    }

    /// Whether a decision went through all that is loaded of the front of the line, and there may be more behind it.
    pub(super) fn is_exhausted_by(&self, decision: &Decision) -> bool {
        let leaves = |id: &LeaseId| {
            let is = |change: &Change| matches!(change, Change::Dequeue(lease) if lease == id);
            decision.changes.iter().any(is)
        };
        self.front_ends.is_some_and(|last| {
            let mut front = self.waiters.iter().filter(|row| row.place <= last);
            front.all(|row| leaves(&row.waiter.lease))
        })
    }
}

/// Locks the row of a resource, reads the clock, and loads holders and line: the first statements of a step.
pub(super) fn load<'a>(about: About<'a>, line: Line<'a>) -> [Asked<'a>; 3] {
    const LOCK: &str = lock!("$1");
    const LOCK_OF_LEASE: &str = lock!(resource_of!());
    const LEASES: &str = leases!("l.resource = $1");
    const LEASES_OF_LEASE: &str = leases!("l.resource = ", resource_of!());
    const LINE_OF_LEASE: &str = line!(resource_of!());
    match about {
        About::Resource(resource) => [
            Asked::new(LOCK, values![resource.as_str()]),
            Asked::new(LEASES, values![resource.as_str()]),
            load_line(resource, line),
        ],
        About::Lease(lease) => {
            let (limit, about) = extent(line);
            [
                Asked::new(LOCK_OF_LEASE, values![lease.as_str()]),
                Asked::new(LEASES_OF_LEASE, values![lease.as_str()]),
                Asked::new(LINE_OF_LEASE, values![lease.as_str(), limit, about]),
            ]
        }
    }
}

/// Loads more of a line, within a step.
pub(super) fn load_line<'a>(resource: &'a Resource, line: Line<'a>) -> Asked<'a> {
    const LINE: &str = line!("$1");
    let (limit, about) = extent(line);
    Asked::new(LINE, values![resource.as_str(), limit, about])
}

fn extent(line: Line<'_>) -> (Option<i64>, Option<&str>) {
    match line {
        Line::All => (None, None),
        Line::Front => (Some(FRONT), None),
        Line::FrontAnd(id) => (Some(FRONT), Some(id.as_str())),
    }
}

/// What the statements of [`load`] found: None where the resource, or the lease, is not there.
pub(super) fn read(
    about: About<'_>,
    answers: &[Vec<Row>],
    line: Line<'_>,
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
    let leases = LeaseRow::read_all(leases)?;
    let (waiters, front_ends) = read_line(waiters, line)?;
    let loaded = Loaded {
        leases,
        waiters,
        front_ends,
    };
    match about {
        About::Lease(lease) if loaded.lease(lease).is_none() => Ok(None),
        _ => Ok(Some((row, moment, loaded))),
    }
}

/// What [`load_line`] found, in the order it is served, and where its front ends if there may be more behind it.
pub(super) fn read_line(rows: &[Row], line: Line<'_>) -> Result<(Vec<WaiterRow>, Option<i64>)> {
    let mut waiters: Vec<WaiterRow> = rows.iter().map(WaiterRow::read).collect::<Result<_>>()?;
    // Whoever is found twice is in the front. Without its doubles that is at most as long as was asked for, and who is
    // behind it was asked for by name.
    waiters.sort_by_key(|row| row.place);
    waiters.dedup_by_key(|row| row.place);
    let last = waiters.get(FRONT as usize - 1).map(|row| row.place);
    let front_ends = last.filter(|_| !matches!(line, Line::All));
    waiters.sort_by_key(|row| row.waiter.want != Want::Upgrade);
    Ok((waiters, front_ends))
}

/// What the column `alone` says of a state: '' that nobody holds and nobody waits; the id of a lease, that it holds and
/// nobody else does; with a plus behind it, that others wait besides, none of them to upgrade it. None where nothing
/// of that is so. It is never false: whoever relies on it sees nothing else.
///
/// Of a line that is loaded in part it is known that it is not empty, and who waits to upgrade.
pub(super) fn alone(state: &State, partial: bool) -> Option<String> {
    use tenure_core::decide::Standing;
    let nobody_waits = state.waiters.is_empty();
    if partial && nobody_waits || state.waiting_upgrade().is_some() {
        return None;
    }
    match (state.holders.as_slice(), nobody_waits) {
        ([], true) => Some(String::new()),
        ([one], true) if one.standing == Standing::Held => Some(one.lease.to_string()),
        ([one], false) if one.standing == Standing::Held => Some(format!("{}+", one.lease)),
        _ => None,
    }
}

/// One lease by its id, outside a step: it may have changed when this returns.
pub(super) async fn load_lease(sql: &Sql, lease: &LeaseId) -> Result<Option<(LeaseRow, Moment)>> {
    let row = sql.row(&lease_by_id(lease)).await?;
    let Some(row) = row else { return Ok(None) };
    let moment = Moment::read(&row, 0)?;
    Ok(LeaseRow::read(&row)?.map(|lease| (lease, moment)))
}

/// Reads one lease by its id.
pub(super) fn lease_by_id(lease: &LeaseId) -> Asked<'_> {
    const ONE: &str = leases!("l.lock_id = $1");
    Asked::new(ONE, values![lease.as_str()])
}

impl Inner {
    /// The last exclusive token of a resource.
    pub(super) async fn current_token(&self, resource: &Resource) -> Result<Token> {
        const TOKEN: &str = "SELECT token FROM tenure.resources WHERE resource = $1";
        let read = || async {
            let asked = Asked::new(TOKEN, values![resource.as_str()]);
            self.lend().await?.row(&asked).await
        };
        let row = self.retrying(read).await?;
        row.map_or(Ok(Token::NONE), |row| token(&row, 0))
    }
}
