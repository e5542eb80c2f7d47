//! Every statement on a lock, prepared once for each connection.
//!
//! Each runs on its own (autocommit), and each reply carries `pg_backend_pid()`. None reads or
//! writes a row, so none relies on isolation.
//!
//! - CASE draws the token after the lock is granted, and only then.
//! - `lock_timeout` is set on the connection, ahead of the grant in the same round trip, and only
//!   when it differs from the last one there.
//! - A grant is marked, so that the last statement of a connection shows since when it holds.

use std::collections::HashMap;

use tenure_core::Mode;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row, Statement};

use super::Key;
use super::probe::Prober;
use super::since::Name;
use super::tokens::{self, Sequence};
use crate::connect::Connection;

/// The beginning of the statement of a grant.
pub(super) const GRANT_MARK: &str = "SELECT /* tenure grants */";

/// Returns the process of the session, which never changes while the session lasts.
const PROBE: &str = "SELECT pg_catalog.pg_backend_pid()";

/// Unlocks everything the session holds.
pub(super) const UNLOCK_ALL: &str = "SELECT pg_catalog.pg_advisory_unlock_all()";

/// The action on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Wait for it.
    Lock,
    /// Take it if it is free.
    Try,
    /// Give it back.
    Unlock,
}

/// Sets how long the server waits for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitMs(pub(super) u32);

/// A connection and its prepared statements.
pub(super) struct Prepared {
    statements: HashMap<(Step, Mode, i16), Statement>,
    /// Asks which session answers.
    pub(super) probe: Statement,
    /// The limit that the server has, or `None` if it is not known.
    limit: Option<LimitMs>,
    pub(super) sequence: Sequence,
    pub(super) prober: Prober,
    pub(super) connection: Connection,
}

/// The answer of the server to a request.
pub(super) struct LockAnswer {
    /// The process that answered.
    pub(super) pid: i32,
    /// The token, or `None` if the lock was not granted.
    pub(super) token: Option<i64>,
}

impl Prepared {
    /// Makes sure that the counter has not gone back, and starts the task that proves the lock that
    /// is held.
    pub(super) async fn new(connection: Connection, name: &Name) -> tenure_core::Result<Self> {
        let preparing = connection.client().prepare(PROBE);
        let (sequence, probe) = tokio::join!(tokens::prove(&connection), preparing);
        let (sequence, probe) = (
            sequence?,
            probe.map_err(|error| connection.explain(&error))?,
        );
        Ok(Self {
            statements: HashMap::new(),
            limit: None,
            sequence,
            prober: Prober::start(&connection, probe.clone(), name.clone()),
            probe,
            connection,
        })
    }

    /// Asks for the lock. The limit applies to a request that waits.
    pub(super) async fn grant(
        &mut self,
        step: Step,
        mode: Mode,
        key: Key,
        limit: LimitMs,
    ) -> Result<LockAnswer, Error> {
        let statement = self.statement(step, mode, key).await?;
        let client = self.connection.client();
        let granting = query_one(client, &statement, key);
        let row = if step == Step::Try || self.limit == Some(limit) {
            granting.await?
        } else {
            self.limit = None;
            let setting = format!("SET lock_timeout = {}", limit.0);
            // The two are polled in this order, and so sent in this order.
            let (set, row) = tokio::join!(biased; client.batch_execute(&setting), granting);
            set?;
            self.limit = Some(limit);
            row?
        };
        Ok(LockAnswer {
            token: row.get(0),
            pid: row.get(1),
        })
    }

    /// Gives the lock back. Returns whether it was held, and the backend.
    pub(super) async fn unlock(&mut self, mode: Mode, key: Key) -> Result<(bool, i32), Error> {
        let statement = self.statement(Step::Unlock, mode, key).await?;
        let row = query_one(self.connection.client(), &statement, key).await?;
        Ok((row.get(0), row.get(1)))
    }

    async fn statement(&mut self, step: Step, mode: Mode, key: Key) -> Result<Statement, Error> {
        let which = (step, mode, key.form());
        if let Some(statement) = self.statements.get(&which) {
            return Ok(statement.clone());
        }
        let (text, types) = text(step, mode, key.form(), self.sequence);
        let client = self.connection.client();
        let statement = client.prepare_typed(&text, types).await?;
        self.statements.insert(which, statement.clone());
        Ok(statement)
    }
}

/// Runs a statement with the numbers of a key as its values: two of 32 bits, or one of 64.
async fn query_one(client: &Client, statement: &Statement, key: Key) -> Result<Row, Error> {
    match key {
        Key::Pair(namespace, id) => client.query_one(statement, &[&namespace.get(), &id]).await,
        Key::Name64(number) => client.query_one(statement, &[&number]).await,
    }
}

fn text(step: Step, mode: Mode, form: i16, sequence: Sequence) -> (String, &'static [Type]) {
    let exclusive = mode == Mode::Write;
    let function = match (step, exclusive) {
        (Step::Lock, true) => "pg_advisory_lock",
        (Step::Lock, false) => "pg_advisory_lock_shared",
        (Step::Try, true) => "pg_try_advisory_lock",
        (Step::Try, false) => "pg_try_advisory_lock_shared",
        (Step::Unlock, true) => "pg_advisory_unlock",
        (Step::Unlock, false) => "pg_advisory_unlock_shared",
    };
    let (numbers, types): (_, &[Type]) = match form {
        2 => ("$1, $2", &[Type::INT4, Type::INT4]),
        _ => ("$1", &[Type::INT8]),
    };
    let call = format!("pg_catalog.{function}({numbers})");
    if step == Step::Unlock {
        let text = format!("SELECT {call}, pg_catalog.pg_backend_pid()");
        return (text, types);
    }
    // The waiting function returns void, which is not null.
    let granted = match step {
        Step::Lock => format!("{call} IS NOT NULL"),
        _ => call,
    };
    let sequence = sequence.sql();
    let token = if exclusive {
        format!("pg_catalog.nextval({sequence})")
    } else {
        format!("coalesce(pg_catalog.pg_sequence_last_value({sequence}), 0)")
    };
    let text =
        format!("{GRANT_MARK} CASE WHEN {granted} THEN {token} END, pg_catalog.pg_backend_pid()");
    (text, types)
}
