//! Who holds, who waits, and why.
//!
//! Pages are cut by (resource, lease id), which an index finds. A page is read without a
//! transaction: between two statements the world may change, as it may after the listing.

use std::collections::{BTreeSet, HashMap};

use rusqlite::params;
use tenure_core::decide::explain;
use tenure_core::page::{WaitingPage, next_name};
use tenure_core::store::Waiting;
use tenure_core::{
    Cursor, Lease, LeaseId, LeaseState, Listing, Query, Resource, Result, SessionId,
};

use super::inner::Inner;
use super::load::{Dead, Line, Loaded, load};
use super::moment::Moment;
use super::row::{LEASE_COLUMNS, LeaseRow, parsed};
use crate::connection::{ROWS_MAX, Rows, Sql};
use crate::platform;
use crate::session_file::Proof;

/// So many rows are read by one statement.
const CHUNK: usize = 1000;

/// What a page would show although it is over.
#[derive(Default)]
struct Over {
    resources: BTreeSet<Resource>,
    dead: Dead,
}

/// What can be proved of the sessions of a page, each once.
type Proofs = HashMap<SessionId, Proof>;

impl Inner {
    pub(super) async fn list_page(&self, query: &Query) -> Result<Listing> {
        let mut over = Over::default();
        let (held, next) = self.read(|sql| self.held(sql, query, &mut over)).await?;
        // What belongs to a dead session is over, and on record as soon as anyone looks. A
        // store that cannot be written, or is busy now, is shown as it would be.
        for resource in &over.resources {
            if self.move_on_now(resource, &over.dead).is_err() {
                break;
            }
        }
        let (waiting, waiting_next) = self.read(|sql| self.waiting(sql, query)).await?;
        Ok(Listing {
            held,
            next,
            waiting: Some(waiting),
            waiting_next,
        })
    }

    fn held(
        &self,
        sql: &Sql<'_>,
        query: &Query,
        over: &mut Over,
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
                if row.has_run_out(&moment) {
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

    /// A lease as it is shown; None if its session is dead.
    fn shown(
        &self,
        sql: &Sql<'_>,
        row: LeaseRow,
        proofs: &mut Proofs,
        over: &mut Over,
    ) -> Result<Option<Lease>> {
        if !row.ends_with_session() {
            return Ok(Some(row.lease));
        }
        let session = &row.lease.session;
        let proof = match proofs.get(session) {
            Some(proof) => *proof,
            None => self.sessions.prove(sql, session)?,
        };
        proofs.insert(session.clone(), proof);
        let mut lease = row.lease;
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
            let mut loaded = load(sql, &self.sessions, &resource, Line::All, &moment)?;
            // Whoever waits and is dead is passed over; it is not shown either. Only where the
            // process is gone is it worth a proof.
            let gone = loaded.waiters.iter();
            let gone = gone.filter(|row| platform::is_gone(row.pid));
            let gone: Vec<SessionId> = gone.map(|row| row.session.clone()).collect();
            let dead = self.sessions.dead(sql, &gone)?;
            loaded.waiters.retain(|row| !dead.contains(&row.session));
            page.add(explained(&resource, &loaded));
            from = next_name(&resource);
        }
        Ok(page.cut())
    }

    /// Ends every lease of sessions that are dead, as far as a bounded look finds them. What is
    /// not found now ends when somebody meets it.
    pub(super) async fn end_leases_of(&self, dead: &Dead) -> Result<()> {
        let mut after = None;
        for _ in 0..ROWS_MAX / CHUNK {
            let (rows, next) = self
                .read(|sql| page(sql, after.as_deref(), CHUNK, &Moment::now()?))
                .await?;
            let over = rows.iter();
            let over =
                over.filter(|row| row.ends_with_session() && dead.contains(&row.lease.session));
            for row in over {
                self.move_on_now(&row.lease.resource, dead)?;
            }
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
        Ok(())
    }
}

/// One page of all leases, by key.
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

/// Rows after a cursor, within the names the query asks for.
fn chunk_of(
    sql: &Sql<'_>,
    query: &Query,
    cursor: &Cursor,
    limit: usize,
    moment: &Moment,
) -> Result<Vec<LeaseRow>> {
    let select = format!(
        "SELECT {LEASE_COLUMNS} FROM dal_locks \
         WHERE (resource, lock_id) > (?1, ?2) AND resource >= ?3 AND resource < ?4 \
         ORDER BY resource, lock_id LIMIT ?5"
    );
    let (from, to) = query.bounds();
    let limit_column = i64::try_from(limit).unwrap_or(i64::MAX);
    sql.query(
        &select,
        params![cursor.resource, cursor.lease, from, to, limit_column],
        Rows::AtMost(limit),
        |row| LeaseRow::read(row, moment),
    )
}

/// The first resource from a name on that somebody waits for.
fn awaited_resource(sql: &Sql<'_>, query: &Query, from: &str) -> Result<Option<Resource>> {
    const SELECT: &str = "SELECT resource FROM waiters \
        WHERE resource >= ?1 AND resource < ?2 ORDER BY resource LIMIT 1";
    let (_, to) = query.bounds();
    sql.one(SELECT, params![from, to], |row| parsed(row, 0))
}

fn explained(resource: &Resource, loaded: &Loaded) -> Vec<Waiting> {
    let state = loaded.state();
    let owner_of = |lease: &LeaseId| loaded.lease(lease).map(|row| &row.lease.owner);
    let line = explain(&state, owner_of).into_iter();
    let listed = line.filter_map(|waits| {
        let row = loaded.waiter(&waits.waiter.lease)?;
        Some(waits.listed(resource, &row.owner, row.since, row.deadline))
    });
    listed.collect()
}
