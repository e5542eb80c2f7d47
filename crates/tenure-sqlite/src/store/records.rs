//! Records: rows above the locks, and their changes.
//!
//! A change is one write transaction, and a write transaction of SQLite keeps all other writers out
//! from its first statement on. The named records, also those that are not there, are therefore
//! locked in any order, and so are the leases that the change compares. The front page of
//! `tenure_core::records` tells what a crash leaves.

use rusqlite::{Row, params};
use tenure_core::records::{
    Column, Columns, Record, RecordChange, RecordKey, RecordPage, RecordQuery, WakeAddress,
    WakeUps, Write, parse_body,
};
use tenure_core::{Reply, Result, SessionId};

use super::audit;
use super::inner::Inner;
use super::load::{load_lease, load_token};
use super::row::{number, parsed, text};
use super::step::Step;
use crate::connection::{Durability, Rows, Sql};
use crate::schema::view_of;
use crate::wake::Wake;

/// Selects records, in the columns that [`read`] takes; a condition follows.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT kind, id, version, state, owner, subject, changed_at, body FROM records WHERE ",
            $condition
        )
    };
}

impl Inner {
    pub(super) async fn read_record(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.read(|sql| load(sql, key)).await
    }

    /// Returns one page, by the index of the column that is asked about.
    pub(super) async fn list_records(&self, query: &RecordQuery) -> Result<RecordPage> {
        const ALL: &str = select!("kind = ?1 AND ?2 IS NULL AND id > ?3 ORDER BY id LIMIT ?4");
        const STATE: &str = select!("kind = ?1 AND state = ?2 AND id > ?3 ORDER BY id LIMIT ?4");
        const OWNER: &str = select!("kind = ?1 AND owner = ?2 AND id > ?3 ORDER BY id LIMIT ?4");
        const SUBJECT: &str =
            select!("kind = ?1 AND subject = ?2 AND id > ?3 ORDER BY id LIMIT ?4");
        let (statement, value) = match &query.column {
            None => (ALL, None),
            Some(Column::State(value)) => (STATE, Some(value)),
            Some(Column::Owner(value)) => (OWNER, Some(value)),
            Some(Column::Subject(value)) => (SUBJECT, Some(value)),
        };
        let limit = query.limit() + 1;
        let found = self.read(|sql| {
            let row = params![query.kind(), value, query.after(), limit as i64];
            sql.query(statement, row, Rows::AtMost(limit), read)
        });
        Ok(query.page(found.await?))
    }

    pub(super) async fn change_records(&self, change: &RecordChange<'_>) -> Result<Vec<Record>> {
        change.check()?;
        self.write(Durability::PowerLoss, |step| change_in_step(step, change))
            .await
    }

    /// Listens at the pipe of the session, which is removed with the session.
    pub(super) async fn listen(&self, session: &SessionId) -> Result<Box<dyn WakeUps>> {
        let wake = Wake::listen(&self.wake_directory, session)?;
        let address = WakeAddress(session.to_string());
        Ok(Box::new(Listening { wake, address }))
    }
}

struct Listening {
    wake: Wake,
    address: WakeAddress,
}

impl WakeUps for Listening {
    fn address(&self) -> &WakeAddress {
        &self.address
    }

    fn woken(&self) -> Reply<'_, ()> {
        Box::pin(self.wake.notified())
    }
}

fn change_in_step(step: &mut Step<'_>, change: &RecordChange<'_>) -> Result<Vec<Record>> {
    let mut leases = Vec::with_capacity(change.fences().len());
    for fence in change.fences() {
        let lease = fence.lease.as_ref();
        let lease = lease.map(|lease| load_lease(step.sql, lease, &step.moment));
        let lease = lease.transpose()?.flatten().map(|row| row.lease);
        leases.push((lease, load_token(step.sql, &fence.resource)?));
    }
    let mut loaded = Vec::with_capacity(change.keys().len());
    for key in change.keys() {
        loaded.extend(load(step.sql, key)?);
    }
    let decided = change.decided(loaded, &leases, step.moment.wall)?;
    for write in &decided.writes {
        write_one(step.sql, write)?;
    }
    for note in &decided.notes {
        audit::append(step.sql, note, false, &step.moment)?;
    }
    // An address of another store reaches no session here.
    let sessions = decided
        .wake
        .iter()
        .filter_map(|address| SessionId::parse(&address.0).ok());
    step.after.wake.extend(sessions);
    Ok(decided.written())
}

fn write_one(sql: &Sql<'_>, write: &Write) -> Result<()> {
    const INSERT: &str = "INSERT INTO records (kind, id, version, changed_at, body, state, owner, \
        subject) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    // A statement that sets no indexed column leaves the indexes alone.
    const BODY: &str =
        "UPDATE records SET version = ?3, changed_at = ?4, body = ?5 WHERE kind = ?1 AND id = ?2";
    const ALL: &str = "UPDATE records SET version = ?3, changed_at = ?4, body = ?5, state = ?6, \
        owner = ?7, subject = ?8 WHERE kind = ?1 AND id = ?2";
    const DELETE: &str = "DELETE FROM records WHERE kind = ?1 AND id = ?2";
    let (statement, record, body) = match write {
        Write::Delete(key) => {
            return sql.execute(DELETE, params![key.kind(), key.id()]).map(drop);
        }
        Write::Body(record, body) => {
            let (key, at) = (&record.key, record.changed_at.to_string());
            let row = params![key.kind(), key.id(), record.version.cast_signed(), at, body];
            return sql.execute(BODY, row).map(drop);
        }
        Write::Insert(record, body) => (INSERT, record, body),
        Write::All(record, body) => (ALL, record, body),
    };
    let (key, columns) = (&record.key, &record.columns);
    if let Some(view) = view_of(key.kind()) {
        sql.execute(&view, [])?;
    }
    let row = params![
        key.kind(),
        key.id(),
        record.version.cast_signed(),
        record.changed_at.to_string(),
        body,
        columns.state,
        columns.owner,
        columns.subject,
    ];
    sql.execute(statement, row).map(drop)
}

fn load(sql: &Sql<'_>, key: &RecordKey) -> Result<Option<Record>> {
    const ONE: &str = select!("kind = ?1 AND id = ?2");
    sql.one(ONE, params![key.kind(), key.id()], read)
}

fn read(row: &Row<'_>) -> Result<Record> {
    let key = RecordKey::new(&text(row, 0)?, text(row, 1)?)?;
    let body = parse_body(&key, &text(row, 7)?)?;
    Ok(Record {
        version: number::<i64>(row, 2)?.cast_unsigned(),
        columns: Columns {
            state: number(row, 3)?,
            owner: number(row, 4)?,
            subject: number(row, 5)?,
        },
        changed_at: parsed(row, 6)?,
        body,
        key,
    })
}
