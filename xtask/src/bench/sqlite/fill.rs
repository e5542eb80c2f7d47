//! A store with many leases, each lease-bound, far from its end, with its token and its entry
//! in the audit: written with SQL into the tables the store itself has made.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, params};
use tenure::clock;

use crate::bench::program::{Program, sqlite};

/// Makes the store and fills it.
pub fn fill(database: &Path, leases: u32) -> Result<()> {
    drop(Program::open(&sqlite(database))?);
    let mut connection = Connection::open(database)?;
    // All pages go to the log first: no other program is there to be held up.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -1_000_000)?;
    let transaction = connection.transaction()?;
    transaction.execute(
        "WITH RECURSIVE count (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM count WHERE n + 1 < ?1) \
         INSERT INTO dal_locks (lock_id, owner, lease_expires, heartbeat_ts, resource, mode, \
         session, token, acquired_at, binding, state, expires_boot, heartbeat_boot, ttl_ms, \
         boot_id, pid, host, command, purpose) \
         SELECT lower(hex(randomblob(8))), 'ana@desk', ?2, ?3, \
         format('item:%03d-%07d', n % 1000, n), 'write', '0123456789abcdef', n + 1, ?3, 'lease', \
         'held', ?4 + 86400000, ?4, 86400000, ?5, 1, 'desk', 'tenure lock item', \
         'one of many' FROM count",
        params![
            leases,
            clock::now()
                .after(std::time::Duration::from_secs(86400))
                .to_string(),
            clock::now().to_string(),
            clock::boot_now().cast_signed(),
            clock::boot_id()?,
        ],
    )?;
    transaction.execute(
        "INSERT INTO resources SELECT resource, token FROM dal_locks ORDER BY resource",
        [],
    )?;
    transaction.execute(
        "INSERT INTO audit (at, action, resource, lock_id, token, owner, actor) \
         SELECT acquired_at, 'acquire', resource, lock_id, token, owner, owner FROM dal_locks \
         ORDER BY token",
        [],
    )?;
    transaction.commit()?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}
