//! The bare limit: the row of a lease inserted and deleted, each in a transaction of its own, in a
//! database of the store's own making and with its settings. There is nothing else: no audit, no
//! token, no session, no look for others. To compare, the row is also put into a table that has no
//! index but its key.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rusqlite::{Connection, params};

/// The number of pages of log between two checkpoints, as the store has it.
const LOG_PAGES: u32 = 2000;

/// The table that the row goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// The store's own table.
    Leases,
    /// A table with these columns and no index but its key.
    Plain,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Leases => "dal_locks",
            Table::Plain => "plain",
        }
    }
}

pub struct Bare {
    connection: Connection,
    table: Table,
    rows: u64,
}

impl Bare {
    /// Opens a database that the store has made.
    pub fn open(path: &Path, table: Table) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_prepared_statement_cache_capacity(128);
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        if table == Table::Plain {
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS plain (lock_id TEXT PRIMARY KEY NOT NULL, owner TEXT, \
                 lease_expires TEXT, heartbeat_ts TEXT, metadata TEXT, resource TEXT, mode TEXT, \
                 upgraded INTEGER, session TEXT, token INTEGER, acquired_at TEXT, binding TEXT, \
                 state TEXT, until_boot INTEGER, expires_boot INTEGER, heartbeat_boot INTEGER, \
                 ttl_ms INTEGER, boot_id TEXT, pid INTEGER, host TEXT, command TEXT, \
                 purpose TEXT, note TEXT) WITHOUT ROWID",
            )?;
        }
        Ok(Self {
            connection,
            table,
            rows: 0,
        })
    }

    /// Does the two transactions.
    pub fn insert_and_delete(&mut self) -> Result<()> {
        let table = self.table.name();
        let insert = format!(
            "INSERT INTO {table} (lock_id, owner, heartbeat_ts, metadata, \
             resource, mode, upgraded, session, token, acquired_at, binding, state, boot_id, pid, \
             host, command, purpose) VALUES (?1, 'bench@desk', '2026-01-01T00:00:00.000Z', NULL, \
             'item:123-free-123', 'write', 0, '0123456789abcdef', ?2, '2026-01-01T00:00:00.000Z', \
             'session', 'held', '01234567-89ab-cdef-0123-456789abcdef', 12345, 'desk', \
             'xtask bench sqlite', NULL)"
        );
        self.rows += 1;
        // The ids ascend, as the store's do.
        let id = format!("{:016x}", self.rows);
        self.run("BEGIN IMMEDIATE")?;
        let mut insert = self.connection.prepare_cached(&insert)?;
        insert.execute(params![id, self.rows.cast_signed()])?;
        drop(insert);
        self.run("COMMIT")?;
        self.run("BEGIN IMMEDIATE")?;
        let delete = format!("DELETE FROM {table} WHERE lock_id = ?1");
        let mut delete = self.connection.prepare_cached(&delete)?;
        delete.execute(params![id])?;
        drop(delete);
        self.run("COMMIT")
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}
