//! Fencing tokens of advisory locks, drawn without writing a row.
//!
//! # The rule
//!
//! A database has one counter, the sequence `tenure.advisory_tokens`. An exclusive grant draws from
//! it in the very statement that grants, after the lock: the later of two grants of a key has the
//! higher token. A shared grant carries the number that was drawn last, by whatever session: it is
//! not below any earlier exclusive grant of its key, and below every later one.
//!
//! A draw does not wait for the disk, so the counter may come back lower after a crash, a failover
//! or a restore. Then it is put ahead before any program draws:
//!
//! > to the clock in microseconds, or to the last number that is left and a million, whichever is
//! > higher.
//!
//! The counter stays behind the clock by itself, as no server draws a million numbers a second.
//!
//! # The proof that nothing was lost
//!
//! `tenure.advisory_epoch` has a row that was written after the counter was last put ahead. The row
//! is good as long as all of these hold:
//!
//! | compared | meaning |
//! |---|---|
//! | the row is there | the table is unlogged: crash recovery, also that after a single killed backend, and the promotion of a standby empty it |
//! | the start of the server | the files are not those of a server that was stopped, copied and put back |
//! | the database | the database is no copy of another one |
//! | the sequence | it was not made anew, as by `pg_restore --clean` or after a dropped schema |
//! | the row's writer is its `xmin` | the row itself was not put back by a restore of data only |
//!
//! # Protocol
//!
//! For each connection, when it is opened and before it is used:
//!
//! 1. Look whether the row is good, and note the sequence by its number. If it is good, that is
//!    all, in one round trip.
//! 2. Else begin a transaction and lock the table. If many come at once, one goes on and the others
//!    wait for its commit.
//! 3. Look again, in a statement of its own, which sees changes that were committed meanwhile.
//! 4. If it still is not good, put the counter ahead, replace the row, commit.
//!
//! | crash or race | what happens |
//! |---|---|
//! | we die in 4 before the commit | the counter is ahead, the row is not there: the next connection puts it ahead again |
//! | the server dies at any moment | every connection ends, and the table is empty: the next connection puts it ahead |
//! | others draw during 4 | they draw from the same counter; the million covers the draws between the look at it and the change |
//! | the sequence is dropped while connections are open | they know it by number, not by name: a grant fails, and its connection ends |
//! | the counter is set back by hand, or by a restore of data only, while connections are open | a process that draws a lower number than before puts the counter ahead, and draws again while it holds the lock |
//!
//! A connection never outlives its server, so a good row stays good as long as the connection
//! lasts.
//!
//! # Assumptions
//!
//! - After a crash, a failover or a restore the database's clock is not behind the tokens that were
//!   lost with it; or fewer than a million were lost, which is more than a server draws before they
//!   are on disk.
//! - The counter is not set back while programs are connected that have not drawn from it
//!   themselves.

use std::sync::atomic::{AtomicI64, Ordering};

use tenure_core::{Error, Result, Token};

use crate::connect::Connection;

/// The counter, by its number at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence(u32);

impl Sequence {
    /// Returns the counter as a statement names it: a number is not looked up again when the
    /// statement is planned anew.
    pub(super) fn sql(self) -> String {
        format!("'{}'::pg_catalog.regclass", self.0)
    }
}

/// The highest token that this process has seen.
#[derive(Default)]
pub(super) struct Highest(AtomicI64);

impl Highest {
    pub(super) fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn record_seen(&self, token: i64) {
        self.0.fetch_max(token, Ordering::AcqRel);
    }
}

/// Relies on no isolation: one row, which is replaced whole.
const LOOK: &str = "
    SELECT s.sequence, EXISTS (
        SELECT FROM tenure.advisory_epoch AS e
        WHERE e.server = pg_catalog.pg_postmaster_start_time()
          AND e.sequence = s.sequence
          AND e.database = d.oid
          AND e.writer = e.xmin::text::bigint),
        pg_catalog.set_config('synchronous_commit', 'off', false)
    FROM (SELECT 'tenure.advisory_tokens'::pg_catalog.regclass::oid AS sequence) AS s,
         pg_catalog.pg_database AS d
    WHERE d.datname = pg_catalog.current_database()";

/// The lock keeps others from writing the row, and lets them read it. An administrator's
/// `lock_timeout` does not count here.
const BEGIN: &str = "
    BEGIN;
    SET LOCAL lock_timeout = 0;
    LOCK TABLE tenure.advisory_epoch IN SHARE ROW EXCLUSIVE MODE";

/// The clock in microseconds is below 2^53 until the year 2255.
fn put_ahead(sequence: Sequence, beyond: i64) -> String {
    let sequence = sequence.sql();
    format!(
        "SELECT pg_catalog.setval({sequence}, greatest(
             (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::bigint,
             coalesce(pg_catalog.pg_sequence_last_value({sequence}), 0) + 1000000,
             {beyond} + 1000000));
         DELETE FROM tenure.advisory_epoch;
         INSERT INTO tenure.advisory_epoch (server, database, sequence, writer)
             SELECT pg_catalog.pg_postmaster_start_time(), d.oid, {sequence},
                 pg_catalog.pg_current_xact_id()::text::bigint % 4294967296
             FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database();
         COMMIT"
    )
}

/// Makes sure that the counter has not gone back, or puts it ahead. From then on commits of the
/// connection do not wait for the disk.
pub(super) async fn prove(connection: &Connection) -> Result<Sequence> {
    let (sequence, good) = look(connection).await?;
    if good {
        return Ok(sequence);
    }
    connection.run(BEGIN).await?;
    let (sequence, good) = look(connection).await?;
    if good {
        connection.run("COMMIT").await?;
    } else {
        connection.run(&put_ahead(sequence, 0)).await?;
    }
    Ok(sequence)
}

/// Draws a token beyond `token`, from a counter that was set back. The caller holds the lock that
/// the token is for.
pub(super) async fn draw_beyond(
    connection: &Connection,
    sequence: Sequence,
    token: i64,
) -> Result<i64> {
    connection.run(BEGIN).await?;
    connection.run(&put_ahead(sequence, token)).await?;
    let draw = format!("SELECT pg_catalog.nextval({})", sequence.sql());
    let rows = connection.query(&draw, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// Returns the token of a number that the database gave.
pub(super) fn token(number: i64) -> Result<Token> {
    u64::try_from(number)
        .ok()
        .and_then(|number| Token::new(number).ok())
        .ok_or_else(|| Error::Internal(format!("the database drew {number} as a token")))
}

/// Looks at the sequence. The statement is not prepared, as it is asked once.
async fn look(connection: &Connection) -> Result<(Sequence, bool)> {
    let rows = connection.query(LOOK, &[]).await?;
    let row = rows.first();
    let row = row.ok_or_else(|| Error::Internal("the database does not know itself".into()))?;
    Ok((Sequence(row.get(0)), row.get(1)))
}
