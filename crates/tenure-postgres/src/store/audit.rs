//! The record of who did what. The database itself refuses to change or delete an entry.
//!
//! # Order
//!
//! Entries are numbered when they are written and seen when their transaction commits, so an entry
//! may appear before another with a lower number. Entries of one resource never do: its row is
//! locked from before the number is drawn until the commit. A page ends before the first gap where
//! an entry may still appear, so that a reader that continues by its cursor misses nothing. A gap
//! older than [`IN_FLIGHT`] stays empty: its transaction was rolled back.

use std::time::{Duration, SystemTime};

pub(super) use tenure_core::audit::NewEntry;
use tenure_core::audit::{Action, AuditPage, AuditQuery, Entry, ended};
use tenure_core::{LeaseId, Resource, Result, Timestamp};
use tokio_postgres::Row;

use super::inner::Inner;
use super::moment::Moment;
use super::row::{column, owner, parsed, text, time, token};
use super::sql::{Sql, Statement, values};

/// The number of entries that one statement steps over.
const WINDOW: usize = 10_000;
/// The number of entries that one call steps over.
const ROWS_MAX: usize = 50_000;
/// The longest time that a transaction of ours takes: the server ends one that idles.
const IN_FLIGHT: Duration = Duration::from_secs(15);

/// Returns the statement that appends an entry, in the transaction of the change it records.
pub(super) fn append(entry: &NewEntry, ends: bool, moment: &Moment) -> Statement<'static> {
    const INSERT: &str = "INSERT INTO tenure.audit \
        (at, action, resource, lock_id, token, owner, actor, reason, ends) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let (lease, token) = entry.lease_columns();
    Statement::new(
        INSERT,
        values![
            moment.at(),
            entry.action.as_str(),
            entry.resource.to_string(),
            lease.to_owned(),
            token,
            entry.owner.to_string(),
            entry.actor.to_string(),
            entry.reason.clone(),
            ends,
        ],
    )
}

impl Inner {
    /// One page, oldest first. The record is read in windows of numbers, at most 50,000 rows a
    /// call: where few of them are wanted, a page may be short and still have a cursor.
    ///
    /// Relies on no isolation: entries are never changed.
    pub(super) async fn audit(&self, query: &AuditQuery) -> Result<AuditPage> {
        self.background_done().await;
        self.retrying(|| self.audit_once(query)).await
    }

    async fn audit_once(&self, query: &AuditQuery) -> Result<AuditPage> {
        const SELECT: &str = "SELECT seq, at, action, resource, lock_id, token, owner, actor, \
            reason FROM tenure.audit WHERE seq > $1 AND seq <= $2 \
            AND ($3::text IS NULL OR resource = $3) AND ($4::timestamptz IS NULL OR at >= $4) \
            ORDER BY seq LIMIT $5";
        let limit = query.limit();
        let mut after = query.after_entry()?;
        let resource = query.resource.as_ref().map(Resource::as_str);
        let since = query.since.map(at_least);
        let sql = self.lend().await?;
        let last = last(&sql).await?;
        let mut told: Vec<(i64, Entry)> = Vec::new();
        for _ in 0..ROWS_MAX / WINDOW {
            let window = after.saturating_add(WINDOW as i64);
            let left = WINDOW.min(limit - told.len());
            let values = values![after, window, resource, since, left as i64];
            let rows = sql.rows(&Statement::new(SELECT, values)).await?;
            for row in &rows {
                told.push((column(row, 0)?, entry(row)?));
            }
            after = match told.last() {
                Some((seq, _)) if rows.len() == left => *seq,
                _ => window,
            };
            if after >= last {
                return Ok(page(told, None));
            }
            if told.len() == limit {
                break;
            }
        }
        let sure = sure_to(&sql, last).await?.unwrap_or(after);
        // If nothing would be left to show, the reader continues instead.
        if told.first().is_some_and(|(seq, _)| *seq <= sure) {
            told.retain(|(seq, _)| *seq <= sure);
            after = after.min(sure);
        }
        Ok(page(told, Some(after.to_string())))
    }

    /// Returns who broke a lease and why, if the lease ended by a break.
    pub(super) async fn break_reason(&self, lease: &LeaseId) -> Result<Option<String>> {
        const SELECT: &str =
            "SELECT reason FROM tenure.audit WHERE lock_id = $1 AND ends AND action = $2";
        let read = || self.row(SELECT, values![lease.as_str(), Action::Lost.as_str()]);
        let row = self.retrying(read).await?;
        row.map(|row| text(&row, 0)).transpose()
    }

    /// Returns how a lease ended.
    pub(super) async fn ended(&self, lease: &LeaseId) -> Result<Option<String>> {
        const SELECT: &str = "SELECT at, action, actor, reason FROM tenure.audit \
            WHERE lock_id = $1 AND ends LIMIT 1";
        let Some(row) = self.row(SELECT, values![lease.as_str()]).await? else {
            return Ok(None);
        };
        let (at, action, actor) = (time(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
        let reason: Option<String> = column(&row, 3)?;
        Ok(Some(ended(&action, &actor, at, reason.as_deref())))
    }
}

fn page(told: Vec<(i64, Entry)>, next: Option<String>) -> AuditPage {
    AuditPage::new(told.into_iter().map(|(_, entry)| entry).collect(), next)
}

/// Returns the number of the last entry.
async fn last(sql: &Sql) -> Result<i64> {
    const LAST: &str = "SELECT max(seq) FROM tenure.audit";
    let row = sql.row(&Statement::new(LAST, values![])).await?;
    let last = row.map(|row| column::<Option<i64>>(&row, 0)).transpose()?;
    Ok(last.flatten().unwrap_or_default())
}

/// Returns the number before the first gap in which an entry may still appear, or `None` if there
/// is no such gap.
async fn sure_to(sql: &Sql, last: i64) -> Result<Option<i64>> {
    const SURE: &str = "SELECT min(told.before) FROM (SELECT seq, at, lag(seq) OVER (ORDER BY seq) \
        AS before FROM tenure.audit WHERE seq > $1) AS told WHERE told.seq > told.before + 1 \
        AND told.at > pg_catalog.clock_timestamp() - $2 * interval '1 second'";
    let values = values![last.saturating_sub(WINDOW as i64), IN_FLIGHT.as_secs_f64()];
    let row = sql.row(&Statement::new(SURE, values)).await?;
    let sure = row.map(|row| column::<Option<i64>>(&row, 0)).transpose()?;
    Ok(sure.flatten())
}

fn entry(row: &Row) -> Result<Entry> {
    let (lease, token) = Entry::read_lease(&text(row, 4)?, token(row, 5)?)?;
    let mut entry = Entry::new(
        time(row, 1)?,
        parsed(row, 2)?,
        parsed(row, 3)?,
        lease,
        token,
        owner(row, 6)?,
        owner(row, 7)?,
    );
    entry.reason = column(row, 8)?;
    Ok(entry)
}

fn at_least(since: Timestamp) -> SystemTime {
    let millis = u64::try_from(since.as_millis()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}
