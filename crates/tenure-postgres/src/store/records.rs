//! Records: rows above the locks, and their changes.
//!
//! # The statements of a change
//!
//! 1. The rows of the resources whose leases are compared are locked for sharing, in the order of
//!    their names: from here on no request is granted them. Then the leases are read.
//! 2. The named records are locked in the order of (kind, id). A missing record is made with
//!    version 0, which no reader sees; another transaction that names it waits for this one. Then
//!    all are read, by a statement of its own: a statement may see a state older than the locks it
//!    takes.
//! 3. The decision is made. Then follow the writes, the removal of rows that are still of version
//!    0, the notifications, and `COMMIT`.
//!
//! 1 and 2 are one round trip, 3 is the other. 1 is left out where no lease is compared. A change
//! of one record alone locks and reads it by one statement, and makes a row for it only if there is
//! none; where several are named, the order of 2 would be lost by that. Steps of locks never lock a
//! record, so a change and a step cannot wait for each other in a circle.
//!
//! # A commit without an answer
//!
//! Every row names the call that changed it last. A call that lost the answer to its commit begins
//! again, and waits at the locked rows until the transaction before has ended. If it finds its own
//! name, the change is made. If it finds the versions that it found before, the change was not
//! made, and is made now. If it finds anything else, another call came after it or before it: the
//! error says so, and nothing is made twice.

use std::sync::Mutex;

use tenure_core::internal::lock;
use tenure_core::records::{
    Column, Columns, Record, RecordChange, RecordKey, RecordPage, RecordQuery, WakeAddress,
    WakeUps, Write, parse_body,
};
use tenure_core::{Error, LeaseId, Reply, Resource, Result, SessionId, Token};
use tenure_os::random;
use tokio_postgres::Row;

use super::audit;
use super::inner::Inner;
use super::listener::Registration;
use super::moment::Moment;
use super::pool::Transaction;
use super::row::{column, leases, read_leases, text, time, token};
use super::sql::{Flush, Statement, values};
use super::step::notify;

/// Selects records, in the columns that [`read`] takes; a condition follows.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT kind, id, version, state, owner, subject, changed_at, body, changed_by, \
             pg_catalog.clock_timestamp() FROM tenure.records WHERE ",
            $condition
        )
    };
}

/// The commit that a try has sent, while its outcome is not known.
struct Sent {
    found: Vec<(RecordKey, u64)>,
    written: Vec<Record>,
    /// True if only the audit could tell that the commit was written.
    only_notes: bool,
}

/// The rows that are loaded for a change.
struct Loaded {
    records: Vec<Record>,
    /// The calls that changed the records last.
    changed_by: Vec<String>,
    leases: Vec<(Option<tenure_core::Lease>, Option<Token>)>,
    moment: Moment,
}

impl Inner {
    pub(super) async fn read_record(&self, key: &RecordKey) -> Result<Option<Record>> {
        const ONE: &str = select!("kind = $1 AND id = $2");
        let look = || self.row(ONE, values![key.kind(), key.id()]);
        let row = self.retrying(look).await?;
        row.map(|row| read(&row)).transpose()
    }

    /// Returns one page, by the index of the column that the query names.
    pub(super) async fn list_records(&self, query: &RecordQuery) -> Result<RecordPage> {
        const ALL: &str =
            select!("kind = $1 AND $2::text IS NULL AND id > $3 ORDER BY id LIMIT $4");
        const STATE: &str = select!("kind = $1 AND state = $2 AND id > $3 ORDER BY id LIMIT $4");
        const OWNER: &str = select!("kind = $1 AND owner = $2 AND id > $3 ORDER BY id LIMIT $4");
        const SUBJECT: &str =
            select!("kind = $1 AND subject = $2 AND id > $3 ORDER BY id LIMIT $4");
        let (text, value) = match &query.column {
            None => (ALL, None),
            Some(Column::State(value)) => (STATE, Some(value.as_str())),
            Some(Column::Owner(value)) => (OWNER, Some(value.as_str())),
            Some(Column::Subject(value)) => (SUBJECT, Some(value.as_str())),
        };
        let limit = query.limit() as i64 + 1;
        let values = values![query.kind(), value, query.after(), limit];
        let rows = self.rows(&Statement::new(text, values)).await?;
        let records = rows.iter().map(read).collect::<Result<Vec<_>>>()?;
        Ok(query.page(records))
    }

    pub(super) async fn change_records(&self, change: &RecordChange<'_>) -> Result<Vec<Record>> {
        change.check()?;
        let call = SessionId::from_random(random::bytes());
        let sent = Mutex::new(None);
        let made = self
            .retrying(|| self.change_once(change, &call, &sent))
            .await;
        made.map_err(|error| match lock(&sent).take() {
            Some(_) if error.is_passing() => unknown(error),
            _ => error,
        })
    }

    async fn change_once(
        &self,
        change: &RecordChange<'_>,
        call: &SessionId,
        sent: &Mutex<Option<Sent>>,
    ) -> Result<Vec<Record>> {
        let (tx, answers) = self.lock_records(change).await?;
        let decided = read_loaded(change, &answers).and_then(|loaded| {
            let before = lock(sent).take();
            match before
                .map(|before| outcome(before, &loaded, call, self.url()))
                .transpose()?
                .flatten()
            {
                Some(written) => Ok(Err(written)),
                None => decide(change, call, loaded).map(Ok),
            }
        });
        let (writes, now) = match decided {
            Ok(Ok(decided)) => decided,
            Ok(Err(written)) => {
                tx.give_up().await;
                return Ok(written);
            }
            Err(error) => {
                tx.give_up().await;
                return Err(error);
            }
        };
        let written = now.written.clone();
        *lock(sent) = Some(now);
        tx.commit(&writes, Flush::Now).await?;
        lock(sent).take();
        Ok(written)
    }

    /// Begins a transaction, and locks and reads the leases and records that a change names.
    async fn lock_records(
        &self,
        change: &RecordChange<'_>,
    ) -> Result<(Transaction, Vec<Vec<Row>>)> {
        let connection = self.lend().await?;
        let Some(alone) = load_alone(change) else {
            return connection.begin(&load(change)).await;
        };
        let (tx, answers) = connection.begin(&[alone]).await?;
        if !answers.iter().all(Vec::is_empty) {
            return Ok((tx, answers));
        }
        match tx.in_order(&load(change)).await {
            Ok(answers) => Ok((tx, answers)),
            Err(error) => {
                tx.give_up().await;
                Err(error)
            }
        }
    }

    /// Listens on the channel of this process, under an id of its own.
    pub(super) async fn listen(&self, session: &SessionId) -> Result<Box<dyn WakeUps>> {
        let waiter = LeaseId::from_random(random::bytes());
        let internal =
            |error: tenure_core::resource::ResourceError| Error::Internal(error.to_string());
        // The listener has a line of its own, so that it is woken when the connection was lost.
        let line = Resource::new("record", format!("{session}/{waiter}")).map_err(internal)?;
        let registration = self.listener.register(&waiter, &line).await?;
        let address = WakeAddress(format!("{} {waiter}", self.process));
        Ok(Box::new(Listening {
            registration,
            address,
        }))
    }
}

struct Listening {
    registration: Registration,
    address: WakeAddress,
}

impl WakeUps for Listening {
    fn address(&self) -> &WakeAddress {
        &self.address
    }

    fn woken(&self) -> Reply<'_, ()> {
        Box::pin(async {
            self.registration.notified().await;
            Ok(())
        })
    }
}

/// Returns the one statement that a change of one record begins with if it compares no lease. It
/// locks and reads the record, if that exists: a row that it had to wait for is read as it is after
/// the wait.
fn load_alone<'a>(change: &'a RecordChange<'_>) -> Option<Statement<'a>> {
    const ALONE: &str = select!("kind = $1 AND id = $2 FOR UPDATE");
    let mut keys = change.keys();
    match (keys.next(), keys.next(), change.fences()) {
        (Some(key), None, []) => Some(Statement::new(ALONE, values![key.kind(), key.id()])),
        _ => None,
    }
}

/// Returns the first statements of a change. A change that compares no lease needs only the last
/// two.
fn load<'a>(change: &'a RecordChange<'_>) -> Vec<Statement<'a>> {
    const RESOURCES: &str = "SELECT resource, token FROM tenure.resources \
        WHERE resource = ANY ($1) ORDER BY resource FOR SHARE";
    const LEASES: &str = leases!("l.lock_id = ANY ($1)");
    // A row that is there is locked by the update that is never made.
    const LOCK: &str = "INSERT INTO tenure.records AS r (kind, id, version, changed_at, changed_by, body) \
        SELECT k.kind, k.id, 0, pg_catalog.clock_timestamp(), '', '' FROM \
        ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) WITH ORDINALITY \
        AS k (kind, id, place) ORDER BY k.place \
        ON CONFLICT (kind, id) DO UPDATE SET version = r.version WHERE false";
    const RECORDS: &str = select!(
        "(kind, id) IN (SELECT k.kind, k.id FROM \
        ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS k (kind, id))"
    );
    let fences = change.fences().iter();
    let resources: Vec<&str> = fences
        .clone()
        .map(|fence| fence.resource.as_str())
        .collect();
    let leases: Vec<&str> = fences
        .filter_map(|fence| Some(fence.lease.as_ref()?.as_str()))
        .collect();
    let (kinds, ids) = names(change.keys());
    let mut statements = Vec::with_capacity(4);
    if !resources.is_empty() {
        statements.push(Statement::new(RESOURCES, values![resources]));
        statements.push(Statement::new(LEASES, values![leases]));
    }
    statements.push(Statement::new(LOCK, values![kinds.clone(), ids.clone()]));
    statements.push(Statement::new(RECORDS, values![kinds, ids]));
    statements
}

fn names<'a>(keys: impl Iterator<Item = &'a RecordKey>) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.map(|key| (key.kind(), key.id())).unzip()
}

fn read_loaded(change: &RecordChange<'_>, answers: &[Vec<Row>]) -> Result<Loaded> {
    let (resources, leases, records) = match answers {
        [records] | [_, records] => (&[][..], &[][..], records),
        [resources, leases, _, records] => (&resources[..], &leases[..], records),
        _ => return Err(Error::Internal("a change was not loaded".into())),
    };
    // Each named record has a row by now, so there is one to read the clock from.
    let clock = records
        .first()
        .map(|row| Moment::read(row, 9))
        .transpose()?;
    let held = read_leases(leases)?;
    let mut tokens = Vec::with_capacity(resources.len());
    for row in resources {
        tokens.push((text(row, 0)?, token(row, 1)?));
    }
    let fence = |fence: &tenure_core::records::Fence| {
        let is_it = |row: &&super::row::LeaseRow| Some(&row.lease.lease) == fence.lease.as_ref();
        let lease = held.iter().find(is_it).map(|row| row.lease.clone());
        let token = tokens
            .iter()
            .find(|(name, _)| name == fence.resource.as_str());
        (lease, token.map(|(_, token)| *token))
    };
    let mut there = Vec::with_capacity(records.len());
    let mut changed_by = Vec::with_capacity(records.len());
    for row in records {
        // A row that was made to be locked does not count as a record.
        if column::<i64>(row, 2)? > 0 {
            there.push(read(row)?);
            changed_by.push(text(row, 8)?);
        }
    }
    Ok(Loaded {
        leases: change.fences().iter().map(fence).collect(),
        changed_by,
        records: there,
        moment: clock.ok_or_else(|| Error::Internal("the clock was not read".into()))?,
    })
}

/// Returns the records that an earlier try of this call has written, or `None` if it has written
/// nothing. A try that only made records, all of which others have deleted since, counts as having
/// written nothing.
fn outcome(
    sent: Sent,
    loaded: &Loaded,
    call: &SessionId,
    store: &str,
) -> Result<Option<Vec<Record>>> {
    if loaded
        .changed_by
        .iter()
        .any(|changed_by| changed_by == call.as_str())
    {
        return Ok(Some(sent.written));
    }
    if sent.found == versions(&loaded.records) && !sent.only_notes {
        Ok(None)
    } else {
        Err(unknown(Error::Unreachable {
            store: store.to_owned(),
            problem: "the connection was lost, and the records do not tell".into(),
        }))
    }
}

fn unknown(source: Error) -> Error {
    Error::HalfWay {
        done: "the answer of the server was lost, and whether the change was made is not known"
            .into(),
        source: Box::new(source),
    }
}

fn versions(records: &[Record]) -> Vec<(RecordKey, u64)> {
    let mut versions: Vec<_> = records
        .iter()
        .map(|record| (record.key.clone(), record.version))
        .collect();
    versions.sort();
    versions
}

/// Decides the change, and returns the statements of the commit.
fn decide(
    change: &RecordChange<'_>,
    call: &SessionId,
    loaded: Loaded,
) -> Result<(Vec<Statement<'static>>, Sent)> {
    // Removes rows that were made to be locked and were not written.
    const UNLOCK: &str = "DELETE FROM tenure.records WHERE kind = $1 AND id = $2 AND version = 0";
    let (moment, found) = (loaded.moment, versions(&loaded.records));
    let decided = change.decided(loaded.records, &loaded.leases, moment.wall())?;
    let mut writes: Vec<_> = decided
        .writes
        .iter()
        .map(|write| write_one(write, call, &moment))
        .collect();
    for key in change.keys() {
        let is_there = found.iter().any(|(there, _)| there == key);
        let is_made = decided
            .writes
            .iter()
            .any(|write| matches!(write, Write::Insert(made, _) if made.key == *key));
        if !is_there && !is_made {
            let values = values![key.kind().to_owned(), key.id().to_owned()];
            writes.push(Statement::new(UNLOCK, values));
        }
    }
    let notes = decided.notes.iter();
    writes.extend(notes.map(|note| audit::append(note, false, &moment)));
    // An address of another store reaches no process here.
    let wake = decided
        .wake
        .iter()
        .filter_map(|address| address.0.split_once(' '));
    let (processes, waiters): (Vec<String>, Vec<String>) = wake
        .map(|(process, waiter)| (process.to_owned(), waiter.to_owned()))
        .unzip();
    if !processes.is_empty() {
        writes.push(notify(processes, waiters));
    }
    let only_notes = decided.writes.is_empty() && !decided.notes.is_empty();
    let sent = Sent {
        found,
        written: decided.written(),
        only_notes,
    };
    Ok((writes, sent))
}

fn write_one(write: &Write, call: &SessionId, moment: &Moment) -> Statement<'static> {
    const BODY: &str = "UPDATE tenure.records SET version = $3, changed_at = $4, changed_by = $5, \
        body = $6 WHERE kind = $1 AND id = $2";
    const ALL: &str = "UPDATE tenure.records SET version = $3, changed_at = $4, changed_by = $5, \
        body = $6, state = $7, owner = $8, subject = $9 WHERE kind = $1 AND id = $2";
    const DELETE: &str = "DELETE FROM tenure.records WHERE kind = $1 AND id = $2";
    let (text, record, body) = match write {
        Write::Delete(key) => {
            let values = values![key.kind().to_owned(), key.id().to_owned()];
            return Statement::new(DELETE, values);
        }
        Write::Body(record, body) => (BODY, record, body),
        // The row is there already: it was made to be locked.
        Write::Insert(record, body) | Write::All(record, body) => (ALL, record, body),
    };
    let mut values = values![
        record.key.kind().to_owned(),
        record.key.id().to_owned(),
        record.version.cast_signed(),
        moment.at(),
        call.to_string(),
        body.clone(),
    ];
    if text == ALL {
        let Columns {
            state,
            owner,
            subject,
        } = record.columns.clone();
        values.extend(values![state, owner, subject]);
    }
    Statement::new(text, values)
}

fn read(row: &Row) -> Result<Record> {
    let key = RecordKey::new(&text(row, 0)?, text(row, 1)?)?;
    let body = parse_body(&key, column(row, 7)?)?;
    Ok(Record {
        version: column::<i64>(row, 2)?.cast_unsigned(),
        columns: Columns {
            state: column(row, 3)?,
            owner: column(row, 4)?,
            subject: column(row, 5)?,
        },
        changed_at: time(row, 6)?,
        body,
        key,
    })
}
