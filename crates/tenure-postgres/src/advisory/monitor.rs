//! The listing of holders and waiters of advisory locks.
//!
//! `pg_locks` knows every lock of the cluster; locks of other databases are left out, as they are
//! other locks. A column of another role that ours may not see is null. The time for which a lock
//! has been held is known only of our own locks (see [`since`]): other programs do not show it.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tenure_core::advisory::LockEntry;
use tenure_core::{
    Asker, Lease, LeaseId, Mode, Owner, Resource, Result, SessionId, Timestamp, Token,
};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::sql::GRANT_MARK;
use super::{Key, since};
use crate::Address;
use crate::connect::{Connection, left, open_with_retry};
use crate::fault::unreachable;

/// Relies on no isolation: locks are not rows, and are looked at one after the other.
const LIST: &str = "
    SELECT l.classid, l.objid, l.objsubid, l.mode = 'ShareLock', l.granted, l.pid, a.application_name, a.state,
        (pg_catalog.date_part('epoch', a.query_start) * 1000)::bigint,
        (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::bigint,
        CASE WHEN pg_catalog.starts_with(a.query, $1) AND pg_catalog.starts_with(a.application_name, 'tenure')
             THEN (pg_catalog.date_part('epoch', CASE a.state WHEN 'idle' THEN a.state_change
                                                 ELSE pg_catalog.clock_timestamp() END) * 1000)::bigint END
    FROM pg_catalog.pg_locks AS l
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory'
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    ORDER BY l.objsubid, l.classid, l.objid, l.granted DESC, l.pid";

/// All advisory locks of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Locks {
    /// The number of holders and waiters.
    pub total: usize,
    /// Each holder and each waiter, by key.
    pub locks: Vec<LockEntry>,
}

pub(super) async fn list(address: &Arc<Address>, deadline: Instant) -> Result<Locks> {
    let open = |deadline| Connection::try_open(address, "", deadline);
    let connection = open_with_retry(address, left(deadline), open).await?;
    let locks = timeout(left(deadline), entries(&connection)).await;
    let locks = locks.map_err(|_| unreachable(address, "no answer in time"))??;
    Ok(Locks {
        total: locks.len(),
        locks,
    })
}

/// Returns the holders of a key, without the asker.
pub(super) async fn holders(
    connection: &Connection,
    key: Key,
    resource: &Resource,
) -> Result<Vec<Lease>> {
    let mut entries = entries(connection).await?;
    entries.retain(|entry| entry.granted && Key::of(entry) == key && entry.pid != connection.pid);
    let now = tenure_os::clock::now();
    let leases = entries.iter();
    Ok(leases
        .filter_map(|entry| lease(entry, resource, now))
        .collect())
}

/// Returns all holders and waiters.
async fn entries(connection: &Connection) -> Result<Vec<LockEntry>> {
    let rows = connection.query(LIST, &[(&GRANT_MARK, Type::TEXT)]).await?;
    Ok(rows.iter().map(entry).collect())
}

fn entry(row: &Row) -> LockEntry {
    let key = Key::from_columns(row.get(0), row.get(1), row.get(2));
    let (namespace, entity_id) = match key {
        Key::Pair(namespace, id) => (Some(namespace), i64::from(id)),
        Key::Name64(number) => (None, number),
    };
    let granted: bool = row.get(4);
    let application_name: Option<String> = row.get(6);
    let time = |column| {
        row.get::<_, Option<i64>>(column)
            .map(Timestamp::from_millis)
    };
    // The start of the grant, if that was the last statement, is newer than the name.
    let since = time(10).or_else(|| since::in_name(application_name.as_deref()?));
    LockEntry {
        pid: row.get::<_, Option<i32>>(5).unwrap_or(0),
        application_name,
        state: row.get(7),
        query_start: time(8),
        namespace,
        entity_id,
        mode: if row.get(3) { Mode::Read } else { Mode::Write },
        granted,
        held_for: match (granted, time(9), since) {
            // A clock that was set back makes it zero, not negative.
            (true, Some(now), Some(since)) => Some(now.since(since)),
            _ => None,
        },
    }
}

/// Returns a holder as errors name it. Only the server knows more of the grant.
fn lease(entry: &LockEntry, resource: &Resource, now: Timestamp) -> Option<Lease> {
    let name = entry.application_name.as_deref().unwrap_or_default();
    // The time is left out of the name, as the lease tells it.
    let name = name.split(", since ").next().unwrap_or_default();
    let program = if name.is_empty() {
        "a program without a name"
    } else {
        name
    };
    let state = entry.state.as_deref().unwrap_or("state unknown");
    let since = entry.held_for.map(|held| {
        let ms = i64::try_from(held.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(now.as_millis().saturating_sub(ms))
    });
    let told = since.map_or_else(String::new, |since| format!(", since {since}"));
    let owner = format!("{program} (server process {}, {state}{told})", entry.pid);
    let asker = Asker {
        session: SessionId::parse(&format!("advisory-{}", entry.pid)).ok()?,
        owner: Owner::parse(&owner).ok()?,
        pid: u32::try_from(entry.pid).unwrap_or(0),
        host: "the database's".into(),
        command: program.to_owned(),
        agent: None,
    };
    let id = LeaseId::parse(&format!("advisory-{}", entry.pid)).ok()?;
    let at = since.or(entry.query_start).unwrap_or(now);
    let mut lease = Lease::granted(id, resource.clone(), entry.mode, Token::NONE, at, asker);
    lease.heartbeat_at = entry.query_start.unwrap_or(now);
    Some(lease)
}
