//! Every statement on a lock, prepared once a connection.
//!
//! All run on their own (autocommit), at READ COMMITTED, and each reply carries `pg_backend_pid()`.
//!
//! - A grant sets `lock_timeout` for itself alone: nothing of it is left on the connection. CASE makes sure
//!   that it is set before the wait begins.
//! - The grant comes before the draw because the draw reads its rows; MATERIALIZED keeps the two apart.
//! - The draw sees the last token although its snapshot is older than the wait: ON CONFLICT works on the row as it is
//!   now, at READ COMMITTED.
//! - A shared grant reads the token in a second statement, as its own snapshot would be too old. The lock
//!   is held by then, so no other token is drawn in between.

use std::collections::HashMap;
use std::fmt::Write as _;

use tenure_core::Mode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use super::{Key, tokens};
use crate::connect::Connection;

/// What is done with a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Wait for it.
    Lock,
    /// Take it if it is free.
    Try,
    /// Give it back.
    Unlock,
}

/// A connection and its prepared statements.
pub(super) struct Prepared {
    statements: HashMap<(Step, Mode, i16), Statement>,
    note: Option<Statement>,
    probe: Option<Statement>,
    pub(super) connection: Connection,
}

impl Prepared {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            statements: HashMap::new(),
            note: None,
            probe: None,
            connection,
        }
    }

    /// Asks for the lock. None if it is not free and was not to be waited for.
    ///
    /// The row has the backend first; of an exclusive grant the token is second.
    pub(super) async fn grant(
        &mut self,
        step: Step,
        mode: Mode,
        key: Key,
        limit_ms: &str,
    ) -> Result<Option<Row>, Error> {
        let statement = self.statement(step, mode, key).await?;
        let (form, bits) = (key.form(), key.bits());
        let numbers = Numbers::of(key);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&limit_ms];
        values.extend(numbers.values());
        if mode == Mode::Write {
            values.extend([&form as &(dyn ToSql + Sync), &bits]);
        }
        self.connection
            .client()
            .query_opt(&statement, &values)
            .await
    }

    /// Gives the lock back: whether it was held, and the backend.
    pub(super) async fn unlock(&mut self, mode: Mode, key: Key) -> Result<(bool, i32), Error> {
        let statement = self.statement(Step::Unlock, mode, key).await?;
        let numbers = Numbers::of(key);
        let client = self.connection.client();
        let row = client.query_one(&statement, &numbers.values()).await?;
        Ok((row.get(0), row.get(1)))
    }

    /// Records a shared grant, and reads the token: the backend and the token.
    pub(super) async fn note_reader(&mut self, key: Key) -> Result<(i32, i64), Error> {
        if self.note.is_none() {
            self.note = Some(self.connection.client().prepare(NOTE_READER).await?);
        }
        let note = self.note.clone().expect("just put there");
        let client = self.connection.client();
        let row = client.query_one(&note, &[&key.form(), &key.bits()]).await?;
        Ok((row.get(0), row.get(1)))
    }

    /// The statement that asks whether the session is still the same.
    pub(super) async fn probe(&mut self) -> Result<Statement, Error> {
        if self.probe.is_none() {
            self.probe = Some(self.connection.client().prepare(PROBE).await?);
        }
        Ok(self.probe.clone().expect("just put there"))
    }

    async fn statement(&mut self, step: Step, mode: Mode, key: Key) -> Result<Statement, Error> {
        let which = (step, mode, key.form());
        if let Some(statement) = self.statements.get(&which) {
            return Ok(statement.clone());
        }
        let text = text(step, mode, key.form());
        let statement = self.connection.client().prepare(&text).await?;
        self.statements.insert(which, statement.clone());
        Ok(statement)
    }
}

/// The session is the same as long as this is.
pub(super) const PROBE: &str = "SELECT pg_catalog.pg_backend_pid()";

/// Whatever the session holds.
pub(super) const UNLOCK_ALL: &str = "SELECT pg_catalog.pg_advisory_unlock_all()";

const NOTE_READER: &str = "
    WITH noted AS (
        INSERT INTO tenure.advisory_readers AS r (pid, form, key, granted_at)
        VALUES (pg_catalog.pg_backend_pid(), $1::smallint, $2::bigint, pg_catalog.clock_timestamp())
        ON CONFLICT (pid) DO UPDATE
            SET form = excluded.form, key = excluded.key, granted_at = excluded.granted_at
        RETURNING pid
    )
    SELECT pid, coalesce((SELECT last FROM tenure.advisory_tokens WHERE form = $1 AND key = $2), 0)
    FROM noted";

/// The numbers of a key as parameters: two of 32 bits, or one of 64.
enum Numbers {
    Pair(i32, i32),
    One(i64),
}

impl Numbers {
    fn of(key: Key) -> Self {
        match key {
            Key::Pair(namespace, id) => Numbers::Pair(namespace.get(), id),
            Key::Name64(number) => Numbers::One(number),
        }
    }

    fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        match self {
            Numbers::Pair(namespace, id) => vec![namespace, id],
            Numbers::One(number) => vec![number],
        }
    }
}

fn text(step: Step, mode: Mode, form: i16) -> String {
    let exclusive = mode == Mode::Write;
    let function = match (step, exclusive) {
        (Step::Lock, true) => "pg_advisory_lock",
        (Step::Lock, false) => "pg_advisory_lock_shared",
        (Step::Try, true) => "pg_try_advisory_lock",
        (Step::Try, false) => "pg_try_advisory_lock_shared",
        (Step::Unlock, true) => "pg_advisory_unlock",
        (Step::Unlock, false) => "pg_advisory_unlock_shared",
    };
    // The first parameter of a grant is its time.
    let first = if step == Step::Unlock { 1 } else { 2 };
    let (numbers, next) = match form {
        2 => (
            format!("${first}::integer, ${}::integer", first + 1),
            first + 2,
        ),
        _ => (format!("${first}::bigint"), first + 1),
    };
    let call = format!("pg_catalog.{function}({numbers})");
    if step == Step::Unlock {
        return format!("SELECT {call}, pg_catalog.pg_backend_pid()");
    }
    // What waits returns nothing, which is not null.
    let granted = if step == Step::Lock {
        " IS NOT NULL"
    } else {
        ""
    };
    let mut sql = format!(
        "WITH asked AS MATERIALIZED (
            SELECT CASE WHEN pg_catalog.set_config('lock_timeout', $1::text, true) IS NOT NULL
                        THEN {call}{granted} END AS granted
        ) "
    );
    let clock = tokens::CLOCK;
    let rest = match exclusive {
        true => write!(
            sql,
            "INSERT INTO tenure.advisory_tokens AS t (form, key, last, pid, granted_at)
             SELECT ${next}::smallint, ${}::bigint, {clock}, pg_catalog.pg_backend_pid(), pg_catalog.clock_timestamp()
             FROM asked WHERE granted
             ON CONFLICT (form, key) DO UPDATE
                 SET last = greatest(t.last + 1, excluded.last), pid = excluded.pid, granted_at = excluded.granted_at
             RETURNING pid, last,
                 CASE WHEN last <= {clock}
                      THEN pg_catalog.set_config('synchronous_commit', 'off', true) END",
            next + 1
        ),
        false => write!(sql, "SELECT pg_catalog.pg_backend_pid() FROM asked WHERE granted"),
    };
    rest.expect("a string takes whatever is written to it");
    sql
}
