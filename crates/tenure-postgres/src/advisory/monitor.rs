//! Who holds and waits for advisory locks.
//!
//! `pg_locks` knows every lock of the cluster; those of other databases are left out, as they are other locks. What
//! a role may not see of others is null. How long a lock has been held is known of our own, by what
//! their grant recorded: nobody else records it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use tenure_core::{Mode, Result, Timestamp};
use tokio::time::timeout;
use tokio_postgres::Row;

use super::{Key, Namespace};
use crate::Address;
use crate::connect::{Connection, left};
use crate::fault::{explain, unreachable};

/// A record counts for the backend that made it, not for a later one with the same number: hence the comparison with its start.
/// Relies on no isolation: locks are not rows, and are looked at one after the other.
const LIST: &str = "
    SELECT l.classid, l.objid, l.objsubid, l.mode = 'ShareLock', l.granted, l.pid, a.application_name, a.state,
        (pg_catalog.date_part('epoch', a.query_start) * 1000)::bigint,
        (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - coalesce(t.granted_at, r.granted_at)) * 1000)::bigint
    FROM pg_catalog.pg_locks AS l
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
    LEFT JOIN tenure.advisory_tokens AS t
        ON l.granted AND l.mode = 'ExclusiveLock' AND t.pid = l.pid AND t.granted_at >= a.backend_start
        AND t.form = l.objsubid AND t.key = (l.classid::bigint << 32 | l.objid::bigint)
    LEFT JOIN tenure.advisory_readers AS r
        ON l.granted AND l.mode = 'ShareLock' AND r.pid = l.pid AND r.granted_at >= a.backend_start
        AND r.form = l.objsubid AND r.key = (l.classid::bigint << 32 | l.objid::bigint)
    WHERE l.locktype = 'advisory'
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    ORDER BY l.objsubid, l.classid, l.objid, l.granted DESC, l.pid";

/// All advisory locks of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Locks {
    /// How many there are.
    pub total: usize,
    /// Each holder and each waiter, by key.
    pub locks: Vec<LockEntry>,
}

/// One who holds or waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockEntry {
    /// The process at the server.
    pub pid: i32,
    /// What the program calls itself. Tenure's begin with `tenure`.
    pub application_name: Option<String>,
    /// What the connection does: `active`, `idle` and so on.
    pub state: Option<String>,
    /// When its last statement began.
    pub query_start: Option<Timestamp>,
    /// What kind of thing is locked; null for a key of 64 bits.
    #[serde(serialize_with = "namespace_number")]
    pub namespace: Option<Namespace>,
    /// Which one.
    pub entity_id: i64,
    /// read is shared, write is exclusive.
    pub mode: Mode,
    /// Whether it holds, or waits.
    pub granted: bool,
    /// How long it has been held, in seconds; null for programs that are not Tenure, and for who waits.
    #[serde(rename = "duration", serialize_with = "in_seconds")]
    pub held_for: Option<Duration>,
}

impl LockEntry {
    /// What it is known by.
    pub fn key(&self) -> Key {
        match self.namespace {
            // The number came from 32 bits.
            Some(namespace) => Key::Pair(namespace, self.entity_id as i32),
            None => Key::Name64(self.entity_id),
        }
    }
}

pub(super) async fn list(address: &Arc<Address>, deadline: Instant) -> Result<Locks> {
    let connection = Connection::open(address, deadline).await?;
    let rows = timeout(left(deadline), connection.client().query(LIST, &[])).await;
    let rows = rows
        .map_err(|_| unreachable(address, "no answer in time"))?
        .map_err(|error| explain(address, &error))?;
    let locks: Vec<LockEntry> = rows.iter().map(entry).collect();
    Ok(Locks {
        total: locks.len(),
        locks,
    })
}

fn entry(row: &Row) -> LockEntry {
    let key = Key::from_columns(row.get(0), row.get(1), row.get(2));
    let (namespace, entity_id) = match key {
        Key::Pair(namespace, id) => (Some(namespace), i64::from(id)),
        Key::Name64(number) => (None, number),
    };
    let held: Option<i64> = row.get(9);
    LockEntry {
        pid: row.get::<_, Option<i32>>(5).unwrap_or(0),
        application_name: row.get(6),
        state: row.get(7),
        query_start: row.get::<_, Option<i64>>(8).map(Timestamp::from_millis),
        namespace,
        entity_id,
        mode: if row.get(3) { Mode::Read } else { Mode::Write },
        granted: row.get(4),
        // A clock that was set back makes it nothing, not less.
        held_for: held.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
    }
}

fn namespace_number<S: Serializer>(
    namespace: &Option<Namespace>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    namespace.map(Namespace::get).serialize(serializer)
}

fn in_seconds<S: Serializer>(held: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    held.map(|held| held.as_secs_f64()).serialize(serializer)
}
