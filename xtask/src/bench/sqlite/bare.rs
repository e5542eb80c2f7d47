//! The bare limit: a row inserted and deleted, each in a transaction of its own, with the
//! store's settings and columns and nothing else: no index, no audit, no token, no session.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rusqlite::{Connection, params};

/// As the store has it: so many pages of log between two checkpoints.
const LOG_PAGES: u32 = 1000;

pub struct Bare {
    connection: Connection,
    rows: u64,
}

impl Bare {
    /// Opens a database with the page size of the store's, which nobody in this process may
    /// have open: reading its file would end SQLite's locks on it.
    pub fn open(path: &Path, store: &Path) -> Result<Self> {
        let page_size = page_size(store)?;
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "page_size", page_size)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_prepared_statement_cache_capacity(128);
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS locks (lock_id TEXT PRIMARY KEY NOT NULL, owner TEXT, \
             lease_expires TEXT, heartbeat_ts TEXT, metadata TEXT, resource TEXT, mode TEXT, \
             upgraded INTEGER, session TEXT, token INTEGER, acquired_at TEXT, binding TEXT, \
             state TEXT, until_boot INTEGER, expires_boot INTEGER, heartbeat_boot INTEGER, \
             ttl_ms INTEGER, boot_id TEXT, pid INTEGER, host TEXT, command TEXT, purpose TEXT, \
             note TEXT) WITHOUT ROWID",
        )?;
        Ok(Self {
            connection,
            rows: 0,
        })
    }

    /// The two transactions.
    pub fn insert_and_delete(&mut self) -> Result<()> {
        const INSERT: &str = "INSERT INTO locks (lock_id, owner, heartbeat_ts, metadata, \
            resource, mode, upgraded, session, token, acquired_at, binding, state, boot_id, pid, \
            host, command, purpose) VALUES (?1, 'bench@desk', '2026-01-01T00:00:00.000Z', NULL, \
            'item:123-free-123', 'write', 0, '0123456789abcdef', ?2, '2026-01-01T00:00:00.000Z', \
            'session', 'held', '01234567-89ab-cdef-0123-456789abcdef', 12345, 'desk', \
            'xtask bench sqlite', NULL)";
        self.rows += 1;
        // Spread like random ids.
        let id = format!("{:016x}", self.rows.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.run("BEGIN IMMEDIATE")?;
        let mut insert = self.connection.prepare_cached(INSERT)?;
        insert.execute(params![id, self.rows.cast_signed()])?;
        drop(insert);
        self.run("COMMIT")?;
        self.run("BEGIN IMMEDIATE")?;
        let mut delete = self
            .connection
            .prepare_cached("DELETE FROM locks WHERE lock_id = ?1")?;
        delete.execute(params![id])?;
        drop(delete);
        self.run("COMMIT")
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// The page size of a database, as the beginning of its file says.
fn page_size(database: &Path) -> Result<u32> {
    let mut header = [0; 18];
    File::open(database)?.read_exact(&mut header)?;
    Ok(match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        size => u32::from(size),
    })
}
