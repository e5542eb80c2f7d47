//! The tables, and how older ones become newer ones.
//!
//! Each file in `schema/` is one step. `tenure.migrations` has a row for each step a database has been
//! through.
//!
//! # Protocol
//!
//! 1. Look: a database that has had all steps needs nothing, and no right to make anything.
//! 2. Else begin a transaction and take a lock that ends with it. Of many nodes that come at once one
//!    goes on; the others wait for its commit.
//! 3. Look again, under the lock, in a statement of its own: another may have made the steps meanwhile.
//! 4. Make the steps that are missing, note them, commit.
//!
//! A crash before the commit of 4 leaves the older tables. IF NOT EXISTS alone is no protection: two
//! that see nothing both make it, and one fails.

use std::time::Instant;

use tenure_core::{Error, Result};
use tokio::time::timeout;

use crate::Address;
use crate::advisory::Key;
use crate::connect::{Connection, left};
use crate::fault::unreachable;

/// The steps, oldest first. A step that was released is never changed.
const STEPS: [&str; 3] = [
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
];

/// The version this Tenure works with.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// Relies on no isolation: one look at the catalogue. Asked without preparing, as it is asked once.
const LOOK: &str = "
    SELECT pg_catalog.to_regclass('tenure.migrations') IS NOT NULL,
           EXISTS (SELECT FROM pg_catalog.pg_class AS c
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                   WHERE n.nspname = 'tenure')";

const MADE: &str = "SELECT coalesce(max(version), 0) FROM tenure.migrations";

const FIRST: &str = "
    CREATE SCHEMA IF NOT EXISTS tenure;
    CREATE TABLE IF NOT EXISTS tenure.migrations (
        version bigint PRIMARY KEY,
        made_at timestamptz NOT NULL
    );";

/// The version of the tables in a database; 0 if there are none.
pub(crate) async fn version(connection: &Connection, address: &Address) -> Result<i64> {
    let client = connection.client();
    let said = |error: tokio_postgres::Error| connection.explain(&error);
    let rows = client.query_typed(LOOK, &[]).await.map_err(said)?;
    let (ours, taken) = rows
        .first()
        .map_or((false, false), |row| (row.get(0), row.get(1)));
    if !ours && taken {
        return Err(Error::Configuration {
            problem: format!("{address} has a schema named tenure of another program"),
            remedy: "choose another database, or rename that schema".into(),
        });
    }
    if !ours {
        return Ok(0);
    }
    let rows = client.query_typed(MADE, &[]).await.map_err(said)?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// Makes the steps that are missing.
///
/// # Errors
///
/// `Configuration` for tables of a newer Tenure and of another program, and where rights are missing.
pub(crate) async fn migrate(
    connection: &Connection,
    address: &Address,
    deadline: Instant,
) -> Result<()> {
    match timeout(left(deadline), make(connection, address)).await {
        Ok(made) => made,
        Err(_) => Err(unreachable(
            address,
            "no answer in time while the tables were made or looked at",
        )),
    }
}

async fn make(connection: &Connection, address: &Address) -> Result<()> {
    if is_current(version(connection, address).await?, address)? {
        return Ok(());
    }
    let client = connection.client();
    let said = |error: tokio_postgres::Error| connection.explain(&error);
    let lock = Key::of_name("tenure:schema").bits();
    let begin = format!("BEGIN; SELECT pg_catalog.pg_advisory_xact_lock({lock})");
    client.batch_execute(&begin).await.map_err(said)?;
    let made = make_under_lock(connection, address).await;
    let end = match made {
        Ok(()) => "COMMIT",
        Err(_) => "ROLLBACK",
    };
    let ended = client.batch_execute(end).await.map_err(said);
    made.and(ended)
}

async fn make_under_lock(connection: &Connection, address: &Address) -> Result<()> {
    let there = version(connection, address).await?;
    if is_current(there, address)? {
        return Ok(());
    }
    let mut all = String::from(FIRST);
    for (step, number) in STEPS.iter().zip(1i64..) {
        if number > there {
            all.push_str(step);
            all.push_str(&format!(
                "INSERT INTO tenure.migrations VALUES ({number}, pg_catalog.clock_timestamp());"
            ));
        }
    }
    let made = connection.client().batch_execute(&all).await;
    made.map_err(|error| connection.explain(&error))
}

fn is_current(there: i64, address: &Address) -> Result<bool> {
    if there > VERSION {
        return Err(Error::Configuration {
            problem: format!(
                "{address} was made by a newer tenure: it has schema {there}, this one knows {VERSION}"
            ),
            remedy: "upgrade tenure, or choose another database".into(),
        });
    }
    Ok(there == VERSION)
}
