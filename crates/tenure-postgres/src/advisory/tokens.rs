//! Fencing tokens of advisory locks.
//!
//! # The rule
//!
//! An exclusive grant draws the higher of the key's last token + 1 and the database's clock in microseconds, in the
//! very statement that grants. A shared grant carries the last one: while it is held, no other is drawn.
//!
//! A token that equals the clock needs no disk: whatever is lost, the clock is later the next time. So the draw does not
//! wait for the disk, as long as the clock gives it. A token ahead of the clock, because the clock was set
//! back, is on disk before it is granted.
//!
//! # What is assumed
//!
//! After a crash, a failover or a restore the clock of the database is not behind the tokens that were lost with it.
//!
//! # The tables
//!
//! Made by whoever comes first, under a lock of their own, so that any number may come at once. Whoever finds them needs no
//! right to make them.

use tenure_core::{Error, Result, Token};

use super::Key;
use crate::connect::Connection;

/// The clock in microseconds: below 2^53 until the year 2255.
pub(super) const CLOCK: &str =
    "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::bigint";

/// Relies on no isolation: one look at the catalogue.
const ARE_THERE: &str = "
    SELECT pg_catalog.to_regclass('tenure.advisory_tokens') IS NOT NULL
       AND pg_catalog.to_regclass('tenure.advisory_readers') IS NOT NULL";

/// The last token of each key, and who was granted it.
const MAKE: &str = "
    CREATE SCHEMA IF NOT EXISTS tenure;
    CREATE TABLE IF NOT EXISTS tenure.advisory_tokens (
        form smallint NOT NULL,
        key bigint NOT NULL,
        last bigint NOT NULL,
        pid integer NOT NULL,
        granted_at timestamptz NOT NULL,
        PRIMARY KEY (form, key)
    ) WITH (fillfactor = 50);
    CREATE TABLE IF NOT EXISTS tenure.advisory_readers (
        pid integer PRIMARY KEY,
        form smallint NOT NULL,
        key bigint NOT NULL,
        granted_at timestamptz NOT NULL
    ) WITH (fillfactor = 50);";

/// Makes the tables if they are not there.
///
/// The lock is of the transaction and is taken first: of many that come at once one makes the tables, and
/// the others find them. IF NOT EXISTS alone is no protection: two that see nothing both make it, and one fails.
pub(super) async fn make_tables(connection: &Connection) -> Result<()> {
    let client = connection.client();
    let said = |error: tokio_postgres::Error| connection.explain(&error);
    if client.query_one(ARE_THERE, &[]).await.map_err(said)?.get(0) {
        return Ok(());
    }
    let lock = Key::of_name("tenure:schema").bits();
    let make = format!("BEGIN; SELECT pg_catalog.pg_advisory_xact_lock({lock}); {MAKE} COMMIT;");
    client.batch_execute(&make).await.map_err(said)
}

/// A token as the database gave it.
pub(super) fn token(number: i64) -> Result<Token> {
    u64::try_from(number)
        .ok()
        .and_then(|number| Token::new(number).ok())
        .ok_or_else(|| Error::Internal(format!("the database drew {number} as a token")))
}
