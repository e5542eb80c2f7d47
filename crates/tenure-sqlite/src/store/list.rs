//! The listing of holders and waiters.
//!
//! Pages are cut by (resource, lease id), which an index finds. Holders and lines are read at two
//! moments: they may change between the two, as they may after the listing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::params;
use serde_json::json;
use tenure_core::decide::{Want, explain_waiter};
use tenure_core::internal::Cursor;
use tenure_core::internal::loaded::LineExtent;
use tenure_core::internal::page::{WaitingPage, next_name};
use tenure_core::store::Waiting;
use tenure_core::{Lease, LeaseId, LeaseState, Listing, Owner, Query, Resource, Result, SessionId};

use super::inner::Inner;
use super::load::{DeadSessions, ahead_of, load, places, waiter, waiter_at};
use super::moment::Moment;
use super::row::{LEASE_COLUMNS, LeaseRow, parsed, read_lease};
use crate::connection::{ROWS_MAX, Rows, Sql};
use crate::platform;
use crate::session_file::Proof;

/// The number of rows that one statement reads.
const CHUNK: usize = 1000;

/// Leases on a page that are over, because their session is dead.
#[derive(Default)]
struct DeadLeases {
    resources: BTreeSet<Resource>,
    dead: DeadSessions,
}

/// The proof about each session of a page, and its command that goes on without its process.
type Proofs = HashMap<SessionId, (Proof, Option<u32>)>;

impl Inner {
    pub(super) async fn list(&self, query: &Query) -> Result<Listing> {
        let mut over = DeadLeases::default();
        let (held, next) = self.read(|sql| self.held(sql, query, &mut over)).await?;
        // A listing also ends the leases of dead sessions, with their audit entries. A store that
        // is busy or cannot be written is listed as if that had happened.
        for resource in &over.resources {
            if self.grant_next_now(resource, &over.dead).is_err() {
                break;
            }
        }
        let (waiting, waiting_next) = if query.held_only {
            Default::default()
        } else {
            self.read(|sql| self.waiting(sql, query)).await?
        };
        Ok(Listing::new(held, next).with_waiting(waiting, waiting_next))
    }

    fn held(
        &self,
        sql: &Sql<'_>,
        query: &Query,
        over: &mut DeadLeases,
    ) -> Result<(Vec<Lease>, Option<String>)> {
        let moment = Moment::now()?;
        let limit = query.limit();
        let mut proofs = Proofs::new();
        let mut held = Vec::new();
        let mut cursor = Cursor::of(query.after.as_deref());
        let mut stepped_over = 0;
        loop {
            let chunk = CHUNK.min(limit - held.len() + 1);
            let rows = chunk_of(sql, query, &cursor, chunk, &moment)?;
            let last_chunk = rows.len() < chunk;
            for row in rows {
                if held.len() == limit {
                    return Ok((held, Some(cursor.spelled())));
                }
                cursor = Cursor::at(&row.lease.resource, &row.lease.lease);
                stepped_over += 1;
                if !query.wants(&row.lease.owner) {
                    continue;
                }
                if row.has_run_out(moment.boot) {
                    over.resources.insert(row.lease.resource);
                    continue;
                }
                held.extend(self.shown(sql, row, &mut proofs, over)?);
            }
            if last_chunk {
                return Ok((held, None));
            }
            if stepped_over >= ROWS_MAX {
                return Ok((held, Some(cursor.spelled())));
            }
        }
    }

    /// Returns a lease as it is shown, or `None` if its session is dead.
    fn shown(
        &self,
        sql: &Sql<'_>,
        row: LeaseRow,
        proofs: &mut Proofs,
        over: &mut DeadLeases,
    ) -> Result<Option<Lease>> {
        if !row.ends_with_session() {
            return Ok(Some(row.lease));
        }
        let mut lease = row.lease;
        let (proof, command_pid) = match proofs.get(&lease.session) {
            Some(known) => *known,
            None => (
                self.sessions.prove(sql, &lease.session)?,
                self.sessions.command_of(&lease),
            ),
        };
        proofs.insert(lease.session.clone(), (proof, command_pid));
        lease.command_pid = command_pid;
        match proof {
            Proof::Alive => Ok(Some(lease)),
            Proof::Unknown => {
                if lease.state == LeaseState::Held {
                    lease.state = LeaseState::Unknown;
                }
                Ok(Some(lease))
            }
            Proof::Dead => {
                over.dead.insert(lease.session);
                over.resources.insert(lease.resource);
                Ok(None)
            }
        }
    }

    fn waiting(&self, sql: &Sql<'_>, query: &Query) -> Result<(Vec<Waiting>, Option<String>)> {
        let moment = Moment::now()?;
        let mut page = WaitingPage::of(query);
        let mut from = page.begins_at();
        while !page.is_full() {
            let Some(resource) = awaited_resource(sql, query, &from)? else {
                break;
            };
            page.add(self.line(sql, &resource, &page, &moment)?);
            from = next_name(&resource);
        }
        Ok(page.cut())
    }

    /// Returns the waiters of one resource that belong on a page. Place and id are read of every
    /// waiter, and the rest only of those on the page and of the one before each: a line of
    /// thousands costs little more than a page.
    ///
    /// A dead waiter is not shown. It is proved dead only if its process is gone. A dead waiter
    /// that is not on the page still counts among those ahead.
    fn line(
        &self,
        sql: &Sql<'_>,
        resource: &Resource,
        page: &WaitingPage<'_>,
        moment: &Moment,
    ) -> Result<Vec<Waiting>> {
        let loaded = load(sql, &self.sessions, resource, LineExtent::Front, 1, moment)?;
        let mut line = places(sql, resource)?;
        // An upgrade belongs to a holder, and goes before all others.
        line.sort_by_key(|(_, id)| loaded.lease(id).is_none());
        let mut wanted: Vec<usize> = (0..line.len()).collect();
        wanted.retain(|at| page.reaches(resource, &line[*at].1));
        wanted.sort_by(|a, b| line[*a].1.cmp(&line[*b].1));
        let mut shown = BTreeMap::new();
        let mut dead = BTreeSet::new();
        for at in wanted {
            if shown.len() > page.limit() {
                break;
            }
            let (place, id) = &line[at];
            let Some(row) = waiter_at(sql, id, *place)? else {
                continue;
            };
            if platform::is_gone(row.process)
                && self.sessions.prove(sql, &row.session)? == Proof::Dead
            {
                dead.insert(at);
            } else if page.wants(&row.owner) {
                shown.insert(at, row);
            }
        }
        let state = loaded.state();
        let owner_of = |lease: &LeaseId| loaded.lease(lease).map(|row| &row.lease.owner);
        let mut waiting = Vec::new();
        for (at, row) in &shown {
            let before = (0..*at).rev().find(|before| !dead.contains(before));
            let before = match before.map(|before| (shown.get(&before), &line[before])) {
                Some((Some(row), _)) => Some(row.clone()),
                Some((None, (place, id))) => waiter_at(sql, id, *place)?,
                None => None,
            };
            let before = before.as_ref().map(|row| &row.waiter);
            let ahead = at - dead.range(..at).count();
            let waits = explain_waiter(&state, &row.waiter, before, ahead, &owner_of);
            waiting.push(waits.listed(resource, &row.owner, row.since, row.deadline));
        }
        Ok(waiting)
    }

    /// Returns the place in line of the request for a lease, from 1.
    pub(super) async fn position(
        &self,
        resource: &Resource,
        lease: &LeaseId,
    ) -> Result<Option<usize>> {
        self.read(|sql| {
            let Some(row) = waiter(sql, resource, lease)? else {
                return Ok(None);
            };
            let ahead = match row.waiter.want {
                Want::Upgrade => 0,
                Want::Lease { .. } => ahead_of(sql, resource, row.place, u32::MAX)?,
            };
            Ok(Some(ahead as usize + 1))
        })
        .await
    }

    /// Ends the leases of dead sessions, as far as a bounded search finds them. The others end when
    /// a later step loads them.
    pub(super) async fn end_leases_of(&self, dead: &DeadSessions) -> Result<()> {
        let mut after = None;
        for _ in 0..ROWS_MAX / CHUNK {
            let (rows, next) = self
                .read(|sql| page(sql, after.as_deref(), CHUNK, &Moment::now()?))
                .await?;
            let over = rows.iter();
            let over =
                over.filter(|row| row.ends_with_session() && dead.contains(&row.lease.session));
            for row in over {
                self.grant_next_now(&row.lease.resource, dead)?;
            }
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
        Ok(())
    }
}

/// Returns one page of all leases, by key.
pub(super) fn page(
    sql: &Sql<'_>,
    after: Option<&str>,
    limit: usize,
    moment: &Moment,
) -> Result<(Vec<LeaseRow>, Option<String>)> {
    let cursor = Cursor::of(after);
    let rows = chunk_of(sql, &Query::default(), &cursor, limit, moment)?;
    let last = rows.last().filter(|_| rows.len() == limit);
    let next = last.map(|row| Cursor::at(&row.lease.resource, &row.lease.lease).spelled());
    Ok((rows, next))
}

/// The index of what agents hold, with its condition: SQLite uses it only for a statement that has
/// the same.
macro_rules! of_agents {
    () => {
        "INDEXED BY dal_locks_by_agent WHERE owner >= 'agent:' AND owner < 'agent;' AND "
    };
}

fn is_agent(owner: &Owner) -> bool {
    owner.as_str().starts_with("agent:")
}

/// Returns rows after a cursor, within the names that the query asks for. The rows of one agent
/// come from the index in their order, and those of several agents are sorted. The rows of other
/// owners are found among all rows.
fn chunk_of(
    sql: &Sql<'_>,
    query: &Query,
    cursor: &Cursor,
    limit: usize,
    moment: &Moment,
) -> Result<Vec<LeaseRow>> {
    let (from_index, owners) = match (&query.owner, &query.owners) {
        (Some(owner), _) if is_agent(owner) => {
            (concat!(of_agents!(), "owner = ?6"), Some(owner.to_string()))
        }
        (None, Some(owners)) if owners.iter().all(is_agent) => (
            concat!(of_agents!(), "owner IN (SELECT value FROM json_each(?6))"),
            Some(json!(owners).to_string()),
        ),
        _ => ("WHERE ?6 IS NULL", None),
    };
    let select = format!(
        "SELECT {LEASE_COLUMNS} FROM dal_locks {from_index} \
         AND (resource, lock_id) > (?1, ?2) AND resource >= ?3 AND resource < ?4 \
         ORDER BY resource, lock_id LIMIT ?5"
    );
    let (from, to) = query.bounds();
    let limit_column = i64::try_from(limit).unwrap_or(i64::MAX);
    sql.query(
        &select,
        params![
            cursor.resource,
            cursor.lease,
            from,
            to,
            limit_column,
            owners
        ],
        Rows::AtMost(limit),
        |row| read_lease(row, moment),
    )
}

/// Returns the first resource from a name on that has a waiter.
fn awaited_resource(sql: &Sql<'_>, query: &Query, from: &str) -> Result<Option<Resource>> {
    const SELECT: &str = "SELECT resource FROM waiters \
        WHERE resource >= ?1 AND resource < ?2 ORDER BY resource LIMIT 1";
    let (_, to) = query.bounds();
    sql.one(SELECT, params![from, to], |row| parsed(row, 0))
}
