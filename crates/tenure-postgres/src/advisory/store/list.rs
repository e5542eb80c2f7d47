//! What is held, by whom.

use tenure_core::{
    Binding, Error, Lease, LeaseId, LeaseState, Listing, Mode, Owner, Query, Resource, Result,
    SessionId, Timestamp, Token,
};
use tokio_postgres::Row;

use super::super::{AdvisoryLocks, tokens};

/// A record counts while its connection holds the key: a later connection with the same number is told by its start.
/// Relies on no isolation: a lease that ends meanwhile is there or not.
const LIST: &str = "
    SELECT h.lease, h.resource, h.mode, h.owner, h.session, h.token,
        pg_catalog.floor(pg_catalog.date_part('epoch', h.acquired_at) * 1000)::bigint, h.client_pid, h.host, h.command, h.purpose,
        h.metadata
    FROM tenure.advisory_holders AS h
    JOIN pg_catalog.pg_locks AS l ON l.pid = h.pid AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND (l.classid::bigint << 32 | l.objid::bigint) = h.key
        AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    JOIN pg_catalog.pg_stat_activity AS a ON a.pid = h.pid AND (a.backend_start IS NULL OR a.backend_start <= h.acquired_at)";

const TOKEN: &str = "SELECT token FROM tenure.advisory_last WHERE resource = $1";

pub(super) async fn list(locks: &AdvisoryLocks, query: &Query) -> Result<Listing> {
    let rows = locks.rows(LIST, &[]).await?;
    let mut held = rows.iter().map(lease).collect::<Result<Vec<Lease>>>()?;
    held.retain(|lease| fits(lease, query));
    held.sort_by_key(cursor);
    if let Some(after) = &query.after {
        held.retain(|lease| cursor(lease) > *after);
    }
    let limit = query.limit.unwrap_or(usize::MAX).max(1);
    let more = held.len() > limit;
    held.truncate(limit);
    Ok(Listing {
        next: held.last().filter(|_| more).map(cursor),
        held,
        waiting: None,
        waiting_next: None,
    })
}

/// The token of the last exclusive grant.
pub(super) async fn token(locks: &AdvisoryLocks, resource: &Resource) -> Result<Token> {
    let rows = locks.rows(TOKEN, &[&resource.as_str()]).await?;
    tokens::token(rows.first().map_or(0, |row| row.get(0)))
}

fn fits(lease: &Lease, query: &Query) -> bool {
    let prefix = query.prefix.as_deref().unwrap_or("");
    lease.resource.as_str().starts_with(prefix)
        && query
            .owner
            .as_ref()
            .is_none_or(|owner| lease.owner == *owner)
        && query
            .resource
            .as_ref()
            .is_none_or(|only| lease.resource == *only)
}

/// Sorts by resource: neither has blanks, which come before all that they have.
fn cursor(lease: &Lease) -> String {
    format!("{} {}", lease.resource, lease.lease)
}

fn lease(row: &Row) -> Result<Lease> {
    let bad = |problem: String| Error::Internal(format!("a record of a holder: {problem}"));
    let text = |column: usize| row.get::<_, String>(column);
    let metadata = row.get::<_, Option<String>>(11);
    let metadata = metadata.map(|text| serde_json::from_str(&text)).transpose();
    let at = Timestamp::from_millis(row.get(6));
    Ok(Lease {
        lease: LeaseId::parse(&text(0)).map_err(|problem| bad(problem.to_string()))?,
        resource: Resource::parse(&text(1)).map_err(|problem| bad(problem.to_string()))?,
        mode: text(2)
            .parse::<Mode>()
            .map_err(|problem| bad(problem.to_string()))?,
        owner: Owner::parse(&text(3)).map_err(|problem| bad(problem.to_string()))?,
        session: SessionId::parse(&text(4)).map_err(|problem| bad(problem.to_string()))?,
        token: tokens::token(row.get(5))?,
        acquired_at: at,
        expires_at: None,
        heartbeat_at: at,
        binding: Binding::Session,
        state: LeaseState::Held,
        pid: u32::try_from(row.get::<_, i64>(7)).unwrap_or(0),
        host: text(8),
        command: text(9),
        purpose: row.get(10),
        metadata: metadata.map_err(|problem| bad(problem.to_string()))?,
    })
}
