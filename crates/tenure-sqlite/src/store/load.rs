//! Everything one decision needs: the holders of a resource, and of its line as much as can
//! have a say.
//!
//! The line is decided from its front, and the first that does not fit ends it. So a
//! decision needs the front of the line, and whoever it is about; only if it takes the whole
//! of that away is the rest loaded, and decided upon again. With hundreds of waiters
//! this is what keeps a hand-over short.

use std::collections::HashSet;

use rusqlite::params;
use tenure_core::decide::{Bound, Change, Decision, Life, State, Want};
use tenure_core::{LeaseId, Resource, Result, SessionId, Token};

use super::moment::Moment;
use super::row::{LEASE_COLUMNS, LeaseRow, WAITER_COLUMNS, WaiterRow, number, token};
use super::sessions::Sessions;
use crate::connection::{Rows, Sql};

/// So much of a line is loaded at first.
const FRONT: usize = 16;

/// Sessions that were proved dead. Nothing brings a session back, so a proof made before a
/// transaction holds inside it.
pub(super) type Dead = HashSet<SessionId>;

/// How much of a line is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line<'a> {
    /// All of it.
    All,
    /// Its front.
    Front,
    /// Its front, and the waiter for this lease.
    FrontAnd(&'a LeaseId),
    /// What a waiter needs to see: the first, the one before it, and itself.
    Around(&'a LeaseId),
}

/// The holders and the line of a resource, as rows and as what is decided upon.
#[derive(Debug, Clone, Default)]
pub(super) struct Loaded {
    pub(super) leases: Vec<LeaseRow>,
    /// In the order they are served: an upgrade stands before all others.
    pub(super) waiters: Vec<WaiterRow>,
    /// There may be more waiters than these.
    pub(super) partial: bool,
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

    pub(super) fn waiter(&self, id: &LeaseId) -> Option<&WaiterRow> {
        self.waiters.iter().find(|row| row.waiter.lease == *id)
    }

    /// The sessions whose death would let someone in: those that keep a lease, and those at the
    /// front of the line.
    pub(super) fn in_the_way(&self) -> Vec<SessionId> {
        let holding = self.leases.iter().filter(|row| row.ends_with_session());
        let holding = holding.map(|row| &row.lease.session);
        let waiting = self.waiters.iter().map(|row| &row.session);
        holding.chain(waiting).cloned().collect()
    }

    /// Notes what was proved.
    pub(super) fn bury(&mut self, dead: &Dead) {
        for row in &mut self.leases {
            if dead.contains(&row.lease.session) {
                row.holder.life = Life::Dead;
            }
        }
        for row in &mut self.waiters {
            if dead.contains(&row.session) {
                row.waiter.life = Life::Dead;
            }
        }
    }

    /// Whether a decision went through all that is loaded of the line, and there may be more.
    pub(super) fn is_exhausted_by(&self, decision: &Decision) -> bool {
        let leaves = |id: &LeaseId| {
            let is = |change: &Change| matches!(change, Change::Dequeue(lease) if lease == id);
            decision.changes.iter().any(is)
        };
        self.partial && self.waiters.iter().all(|row| leaves(&row.waiter.lease))
    }
}

/// A resource. The index on (resource, lock_id) and that on (resource, place) find it; inside
/// a write transaction nobody else changes it.
pub(super) fn load(
    sql: &Sql<'_>,
    sessions: &Sessions,
    resource: &Resource,
    line: Line<'_>,
    moment: &Moment,
) -> Result<Loaded> {
    let leases = format!("SELECT {LEASE_COLUMNS} FROM dal_locks WHERE resource = ?1");
    let mut leases = sql.query(&leases, params![resource.as_str()], Rows::All, |row| {
        LeaseRow::read(row, moment)
    })?;
    for row in &mut leases {
        note_claim(sql, sessions, row, moment)?;
    }
    let mut waiters = Vec::new();
    let mut partial = false;
    match line {
        Line::All => waiters = everyone(sql, resource)?,
        Line::Front | Line::FrontAnd(_) => {
            waiters = first(sql, resource, FRONT)?;
            partial = waiters.len() == FRONT;
        }
        Line::Around(id) => {
            waiters.extend(first(sql, resource, 1)?);
            waiters.extend(before(sql, resource, id)?);
            partial = true;
        }
    }
    if partial {
        // An upgrade goes before all others, wherever it stands. It is that of a holder.
        let about = match line {
            Line::FrontAnd(id) | Line::Around(id) => Some(id),
            Line::All | Line::Front => None,
        };
        let ids = leases.iter().map(|row| &row.lease.lease).chain(about);
        for id in ids {
            waiters.extend(waiter(sql, resource, id)?);
        }
    }
    waiters.sort_by_key(|row| (row.waiter.want != Want::Upgrade, row.place));
    waiters.dedup_by_key(|row| row.place);
    Ok(Loaded {
        leases,
        waiters,
        partial,
    })
}

/// How many are served before a waiter; an upgrade among them counts where it stands.
pub(super) fn ahead_of(sql: &Sql<'_>, resource: &Resource, id: &LeaseId) -> Result<u32> {
    const COUNT: &str = "SELECT count(*) FROM waiters WHERE resource = ?1 \
        AND place < (SELECT place FROM waiters WHERE resource = ?1 AND lock_id = ?2)";
    let key = params![resource.as_str(), id.as_str()];
    let count = sql.one(COUNT, key, |row| number(row, 0))?;
    Ok(count.unwrap_or_default())
}

fn everyone(sql: &Sql<'_>, resource: &Resource) -> Result<Vec<WaiterRow>> {
    let all = format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 ORDER BY place");
    sql.query(&all, params![resource.as_str()], Rows::All, WaiterRow::read)
}

fn first(sql: &Sql<'_>, resource: &Resource, limit: usize) -> Result<Vec<WaiterRow>> {
    let first =
        format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 ORDER BY place LIMIT ?2");
    let column = i64::try_from(limit).unwrap_or(i64::MAX);
    let key = params![resource.as_str(), column];
    sql.query(&first, key, Rows::AtMost(limit), WaiterRow::read)
}

fn before(sql: &Sql<'_>, resource: &Resource, id: &LeaseId) -> Result<Option<WaiterRow>> {
    let before = format!(
        "SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 \
         AND place < (SELECT place FROM waiters WHERE resource = ?1 AND lock_id = ?2) \
         ORDER BY place DESC LIMIT 1"
    );
    let key = params![resource.as_str(), id.as_str()];
    sql.one(&before, key, WaiterRow::read)
}

fn waiter(sql: &Sql<'_>, resource: &Resource, id: &LeaseId) -> Result<Option<WaiterRow>> {
    let one = format!("SELECT {WAITER_COLUMNS} FROM waiters WHERE resource = ?1 AND lock_id = ?2");
    let key = params![resource.as_str(), id.as_str()];
    sql.one(&one, key, WaiterRow::read)
}

/// One lease by its id, alone. Enough to decide what nobody else has a say in: accepting an
/// offer, binding, renewing.
pub(super) fn load_lease(
    sql: &Sql<'_>,
    lease: &LeaseId,
    moment: &Moment,
) -> Result<Option<LeaseRow>> {
    let one = format!("SELECT {LEASE_COLUMNS} FROM dal_locks WHERE lock_id = ?1");
    sql.one(&one, params![lease.as_str()], |row| {
        LeaseRow::read(row, moment)
    })
}

/// The last exclusive token of a resource.
pub(super) fn load_token(sql: &Sql<'_>, resource: &Resource) -> Result<Token> {
    const TOKEN: &str = "SELECT token FROM resources WHERE resource = ?1";
    let token = sql.one(TOKEN, params![resource.as_str()], |row| token(row, 0))?;
    Ok(token.unwrap_or(Token::NONE))
}

/// Whether an active job claims an expired lease. Only then is it asked: a claim does
/// nothing for a lease whose time is not over.
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
