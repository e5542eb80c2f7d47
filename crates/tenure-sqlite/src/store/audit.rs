//! The record of who did what. The database itself refuses to change or delete an entry.

use rusqlite::params;
use tenure_core::audit::{Action, AuditPage, AuditQuery, Entry};
use tenure_core::leases::grace;
use tenure_core::{Error, LeaseId, Owner, Resource, Result, Timestamp, Token, duration};

use super::SqliteStore;
use super::moment::Moment;
use super::row::{LeaseRow, number, owner, parsed, text, token};
use crate::connection::{ROWS_MAX, Rows, Sql};

/// A page has at most this many unless the query says otherwise.
const LIMIT_DEFAULT: usize = 1000;
/// So many entries are read by one statement.
const CHUNK: usize = 1000;

pub(super) const OFFER_LAPSED: &str = "offered to a waiter that did not take it up in 5s";

/// One entry to be written.
pub(super) struct Line<'a> {
    pub(super) action: Action,
    pub(super) resource: &'a Resource,
    pub(super) lease: &'a LeaseId,
    pub(super) token: Token,
    pub(super) owner: &'a Owner,
    pub(super) actor: &'a Owner,
    pub(super) reason: Option<&'a str>,
    /// A lease-bound lease ended with it.
    pub(super) ends: bool,
}

/// Appends an entry, in the transaction of what it tells of.
pub(super) fn append(sql: &Sql<'_>, line: &Line<'_>, moment: &Moment) -> Result<()> {
    const INSERT: &str = "INSERT INTO audit \
        (at, action, resource, lock_id, token, owner, actor, reason, ends) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let row = params![
        moment.wall.to_string(),
        line.action.as_str(),
        line.resource.as_str(),
        line.lease.as_str(),
        line.token.get().cast_signed(),
        line.owner.as_str(),
        line.actor.as_str(),
        line.reason,
        line.ends.then_some(1),
    ];
    sql.execute(INSERT, row).map(drop)
}

/// Why a lease of a dead session is over.
pub(super) fn session_ended(held: &LeaseRow) -> String {
    format!("session {} is proved dead", held.lease.session)
}

/// Why a stale lease could be recovered: the conditions that held.
pub(super) fn recovered(held: &LeaseRow, moment: &Moment) -> String {
    let ago = |at: Timestamp| duration::show(moment.wall.since(at));
    let expired = held.lease.expires_at.map_or_else(String::new, ago);
    format!(
        "expired {expired} ago; heartbeat {} ago, older than {}; no active job claims it",
        ago(held.lease.heartbeat_at),
        duration::show(grace(held.ttl.unwrap_or_default())),
    )
}

/// What is said of a holder that let its time to stop run out.
pub(super) fn not_confirmed(held: &LeaseRow) -> String {
    let note = held.note.as_deref().unwrap_or("broken");
    format!("{note}; its stop was not confirmed within 10s")
}

impl SqliteStore {
    pub(super) async fn read_audit(&self, query: &AuditQuery) -> Result<AuditPage> {
        self.sweep_some().await;
        self.read(|sql| page(sql, query)).await
    }

    /// How a lease ended that was lease-bound.
    pub(super) async fn how_it_ended(&self, lease: &LeaseId) -> Result<Option<String>> {
        const SELECT: &str = "SELECT at, action, actor, reason FROM audit \
            WHERE lock_id = ?1 AND ends = 1 LIMIT 1";
        self.read(|sql| {
            sql.one(SELECT, params![lease.as_str()], |row| {
                let (at, action, actor) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
                let reason: Option<String> = number(row, 3)?;
                let done = match Action::parse(&action) {
                    Some(Action::Release) => format!("released by {actor} at {at}"),
                    Some(Action::Recover) => format!("recovered by {actor} at {at}"),
                    Some(Action::Lost) => format!("taken away at {at}"),
                    _ => format!("{action} by {actor} at {at}"),
                };
                Ok(match reason {
                    Some(reason) => format!("{done} ({reason})"),
                    None => done,
                })
            })
        })
        .await
    }
}

/// One page, oldest first. Entries before `since` are stepped over in chunks, and at most
/// 50,000 of them a call.
fn page(sql: &Sql<'_>, query: &AuditQuery) -> Result<AuditPage> {
    const COLUMNS: &str = "seq, at, action, resource, lock_id, token, owner, actor, reason";
    let statement = match query.resource {
        None => format!("SELECT {COLUMNS} FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2"),
        Some(_) => format!(
            "SELECT {COLUMNS} FROM audit WHERE resource = ?3 AND seq > ?1 ORDER BY seq LIMIT ?2"
        ),
    };
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT).max(1);
    let mut after = match &query.after {
        None => 0,
        Some(cursor) => cursor.parse::<i64>().map_err(|_| {
            Error::BadInput(format!(
                "bad cursor {cursor:?}: take it from `next` of the page before"
            ))
        })?,
    };
    let mut page = AuditPage::default();
    let mut stepped_over = 0;
    loop {
        let chunk = CHUNK.min(limit + 1);
        let chunk_column = i64::try_from(chunk).unwrap_or(i64::MAX);
        let read = |row: &rusqlite::Row<'_>| Ok((number::<i64>(row, 0)?, entry(row)?));
        let rows = match &query.resource {
            None => sql.query(
                &statement,
                params![after, chunk_column],
                Rows::AtMost(chunk),
                read,
            )?,
            Some(resource) => sql.query(
                &statement,
                params![after, chunk_column, resource.as_str()],
                Rows::AtMost(chunk),
                read,
            )?,
        };
        let more = rows.len() == chunk;
        for (seq, entry) in rows {
            if page.entries.len() == limit {
                page.next = Some(after.to_string());
                return Ok(page);
            }
            after = seq;
            stepped_over += 1;
            if query.since.is_none_or(|since| entry.at >= since) {
                page.entries.push(entry);
            }
        }
        if !more {
            return Ok(page);
        }
        if stepped_over >= ROWS_MAX {
            page.next = Some(after.to_string());
            return Ok(page);
        }
    }
}

fn entry(row: &rusqlite::Row<'_>) -> Result<Entry> {
    let word = text(row, 2)?;
    let action = Action::parse(&word);
    Ok(Entry {
        at: parsed(row, 1)?,
        action: action.ok_or_else(|| Error::Corrupt {
            path: "audit".into(),
            problem: format!("unknown action {word:?}"),
        })?,
        resource: parsed(row, 3)?,
        lease: parsed(row, 4)?,
        token: token(row, 5)?,
        owner: owner(row, 6)?,
        actor: owner(row, 7)?,
        reason: number(row, 8)?,
    })
}
