//! The row of one record, locked for as long as expensive work on it takes.
//!
//! 1. A connection of its own is opened, without limits on idle time: the work may take minutes.
//! 2. `BEGIN`, and `SELECT … FOR UPDATE NOWAIT`. If another transaction has the row, or there is
//!    none, nothing is done.
//! 3. The caller reads the record anew, works if the work is still to be done,
//! 4. and writes the result in the same transaction, which is committed.
//!
//! A crash, or a drop before 4, ends the session and with it the transaction, and frees the row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_core::Result;
use tenure_core::records::RecordKey;
use tokio_postgres::error::SqlState;

use crate::Address;
use crate::connect::{ConnectFailure, Connection};

/// The time to wait for a connection.
const OPEN: Duration = Duration::from_secs(5);

/// The row of a record, locked until it is written or dropped.
pub struct RecordRow {
    connection: Connection,
    key: RecordKey,
}

impl RecordRow {
    /// Locks the row of a record. Returns `None` if another transaction has it, or there is none.
    ///
    /// # Errors
    ///
    /// Errors of the database, other than that the row is locked.
    pub async fn lock(url: &str, key: &RecordKey) -> Result<Option<Self>> {
        const LOCK: &str = "SELECT 1 FROM tenure.records \
            WHERE kind = $1 AND id = $2 AND version > 0 FOR UPDATE NOWAIT";
        let address = Arc::new(Address::parse(url)?.named("record"));
        let opened = Connection::try_open(&address, "", Instant::now() + OPEN).await;
        let connection = opened.map_err(ConnectFailure::into_error)?;
        let client = connection.client();
        let begun = client.batch_execute("BEGIN").await;
        begun.map_err(|error| connection.explain(&error))?;
        let row = match client.query_opt(LOCK, &[&key.kind(), &key.id()]).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => return Ok(None),
            row => row.map_err(|error| connection.explain(&error))?,
        };
        Ok(row.map(|_| Self {
            key: key.clone(),
            connection,
        }))
    }

    /// Writes the body and the state, and commits.
    ///
    /// # Errors
    ///
    /// Errors of the database.
    pub async fn write(self, state: &str, body: &Value) -> Result<()> {
        const WRITE: &str = "UPDATE tenure.records SET version = version + 1, state = $3, body = $4, \
            changed_at = pg_catalog.clock_timestamp(), changed_by = '' WHERE kind = $1 AND id = $2";
        let client = self.connection.client();
        let explain = |error| self.connection.explain(&error);
        let (kind, id, body) = (self.key.kind(), self.key.id(), body.to_string());
        let written = client.execute(WRITE, &[&kind, &id, &state, &body]).await;
        written.map_err(explain)?;
        client.batch_execute("COMMIT").await.map_err(explain)
    }
}
