//! The audit: the record of who did what. The database refuses to change or delete an entry.

use rusqlite::params;
pub(super) use tenure_core::audit::NewEntry;
use tenure_core::audit::{Action, AuditPage, AuditQuery, Entry, ended};
use tenure_core::{LeaseId, Resource, Result};

use super::inner::Inner;
use super::moment::Moment;
use super::row::{number, owner, parsed, text, token};
use crate::connection::{ROWS_MAX, Rows, Sql};

/// The number of rows that one statement reads.
const WINDOW: usize = 10_000;

/// Appends an entry, in the transaction of the change it records.
pub(super) fn append(sql: &Sql<'_>, entry: &NewEntry, ends: bool, moment: &Moment) -> Result<()> {
    const INSERT: &str = "INSERT INTO audit \
        (at, action, resource, lock_id, token, owner, actor, reason, ends) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let (lease, token) = entry.lease_columns();
    let row = params![
        moment.wall.to_string(),
        entry.action.as_str(),
        entry.resource.as_str(),
        lease,
        token,
        entry.owner.as_str(),
        entry.actor.as_str(),
        entry.reason,
        ends.then_some(1),
    ];
    sql.execute(INSERT, row).map(drop)
}

impl Inner {
    pub(super) async fn audit(&self, query: &AuditQuery) -> Result<AuditPage> {
        self.sweep_some().await;
        self.read(|sql| page(sql, query)).await
    }

    /// Returns the actor and the reason of the break of a lease, if it ended by that.
    pub(super) async fn break_reason(&self, lease: &LeaseId) -> Result<Option<String>> {
        const SELECT: &str = "SELECT reason FROM audit \
            WHERE lock_id = ?1 AND ends = 1 AND action = ?2";
        self.read(|sql| {
            let key = params![lease.as_str(), Action::Lost.as_str()];
            sql.one(SELECT, key, |row| text(row, 0))
        })
        .await
    }

    /// Returns the end of a lease-bound or broken lease, in words.
    pub(super) async fn ended(&self, lease: &LeaseId) -> Result<Option<String>> {
        const SELECT: &str = "SELECT at, action, actor, reason FROM audit \
            WHERE lock_id = ?1 AND ends = 1 LIMIT 1";
        self.read(|sql| {
            sql.one(SELECT, params![lease.as_str()], |row| {
                let (at, action, actor) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
                let reason: Option<String> = number(row, 3)?;
                Ok(ended(&action, &actor, at, reason.as_deref()))
            })
        })
        .await
    }
}

/// Returns one page, oldest first. It reads at most 50,000 rows a call, in windows of row numbers:
/// if few of them match, a page is short and has a cursor all the same.
fn page(sql: &Sql<'_>, query: &AuditQuery) -> Result<AuditPage> {
    const SELECT: &str = "SELECT seq, at, action, resource, lock_id, token, owner, actor, reason \
        FROM audit WHERE seq > ?1 AND seq <= ?2 AND (?3 IS NULL OR resource = ?3) \
        AND (?4 IS NULL OR at >= ?4) ORDER BY seq LIMIT ?5";
    let limit = query.limit();
    let (mut after, last) = (query.after_entry()?, last(sql)?);
    let resource = query.resource.as_ref().map(Resource::as_str);
    let since = query.since.map(|since| since.to_string());
    let mut page = AuditPage::default();
    for _ in 0..ROWS_MAX / WINDOW {
        let window = after.saturating_add(WINDOW as i64);
        let left = WINDOW.min(limit - page.entries.len());
        let row = params![after, window, resource, since, left as i64];
        let rows = sql.query(SELECT, row, Rows::AtMost(left), |row| {
            Ok((number::<i64>(row, 0)?, entry(row)?))
        })?;
        after = match rows.last() {
            Some((seq, _)) if rows.len() == left => *seq,
            _ => window,
        };
        page.entries
            .extend(rows.into_iter().map(|(_, entry)| entry));
        if after >= last {
            return Ok(page);
        }
        if page.entries.len() == limit {
            break;
        }
    }
    page.next = Some(after.to_string());
    Ok(page)
}

/// Returns the number of the last entry.
fn last(sql: &Sql<'_>) -> Result<i64> {
    let last = sql.one("SELECT max(seq) FROM audit", [], |row| {
        number::<Option<i64>>(row, 0)
    })?;
    Ok(last.flatten().unwrap_or_default())
}

fn entry(row: &rusqlite::Row<'_>) -> Result<Entry> {
    let (lease, token) = Entry::read_lease(&text(row, 4)?, token(row, 5)?)?;
    let mut entry = Entry::new(
        parsed(row, 1)?,
        parsed(row, 2)?,
        parsed(row, 3)?,
        lease,
        token,
        owner(row, 6)?,
        owner(row, 7)?,
    );
    entry.reason = number(row, 8)?;
    Ok(entry)
}
