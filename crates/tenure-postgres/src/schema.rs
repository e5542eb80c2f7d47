//! The tables, and the migration of older ones.
//!
//! Each file in `schema/` is one step. `tenure.migrations` has a row for each step that was made in
//! a database.
//!
//! # Protocol
//!
//! 1. Look, and refuse a schema that is not ours (`ours`). A database that has had all steps needs
//!    nothing, and no right to make anything.
//! 2. Else begin a transaction and take a lock that ends with it. If many nodes come at once, one
//!    goes on and the others wait for its commit.
//! 3. Look again, under the lock, in a statement of its own: another may have made the steps
//!    meanwhile.
//! 4. Make the steps that are missing, note them, commit.
//!
//! A crash before the commit of 4 leaves the older tables. IF NOT EXISTS is no protection: two
//! nodes that see nothing both make the schema, and one fails; and a schema that a third program
//! made meanwhile would be taken for ours.

mod ours;

use std::time::Instant;

use tenure_core::{Error, Result};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use crate::Address;
use crate::advisory::Key;
use crate::connect::{Connection, left};
use crate::fault::unreachable;
use ours::SchemaContent;

/// The steps, oldest first. A step that was released is never changed.
const STEPS: [&str; 9] = [
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
];

/// The version this Tenure works with.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

const MADE: &str = "SELECT coalesce(max(version), 0) FROM tenure.migrations";

/// IF NOT EXISTS is left out: a schema that another program makes after the look is not ours.
const SCHEMA: &str = "CREATE SCHEMA tenure;";
const MIGRATIONS: &str = "
    CREATE TABLE tenure.migrations (
        version bigint PRIMARY KEY,
        made_at timestamptz NOT NULL
    );";

/// Returns the content of the schema, and the version of its tables, 0 if there are none. Nothing
/// in the schema is used before its owner is known.
async fn version(connection: &Connection, address: &Address) -> Result<(SchemaContent, i64)> {
    let found = ours::look(connection, address).await?;
    if found != SchemaContent::Tables {
        return Ok((found, 0));
    }
    let rows = connection.query(MADE, &[]).await?;
    Ok((found, rows.first().map_or(0, |row| row.get(0))))
}

/// Makes the steps that are missing.
///
/// # Errors
///
/// `Configuration` for tables of a newer Tenure and of another program, and where rights are
/// missing.
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
    let (_, there) = version(connection, address).await?;
    if is_current(there, address)? {
        return Ok(());
    }
    let lock = Key::of_name("tenure:schema").bits();
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; \
         SELECT pg_catalog.pg_advisory_xact_lock({lock})"
    );
    connection.run(&begin).await?;
    let made = make_under_lock(connection, address).await;
    let end = match made {
        Ok(()) => "COMMIT",
        Err(_) => "ROLLBACK",
    };
    let ended = connection.run(end).await;
    made.and(ended)
}

async fn make_under_lock(connection: &Connection, address: &Address) -> Result<()> {
    let (found, there) = version(connection, address).await?;
    if is_current(there, address)? {
        return Ok(());
    }
    let mut all = String::new();
    if found == SchemaContent::Nothing {
        all.push_str(SCHEMA);
    }
    if found != SchemaContent::Tables {
        all.push_str(MIGRATIONS);
    }
    for (step, number) in STEPS.iter().zip(1i64..) {
        if number > there {
            all.push_str(step);
            all.push_str(&format!(
                "INSERT INTO tenure.migrations VALUES ({number}, pg_catalog.clock_timestamp());"
            ));
        }
    }
    let made = connection.client().batch_execute(&all).await;
    made.map_err(|error| match (error.code(), found) {
        (Some(&SqlState::INSUFFICIENT_PRIVILEGE), SchemaContent::Tables) => Error::configuration(
            format!(
                "{address} has schema {there}, this tenure needs {VERSION}, and {} may not change it",
                address.role()
            ),
            "use it once as the owner of the schema, who then grants its use again \
             (SECURITY.md has the statements)",
        ),
        _ => connection.explain(&error),
    })
}

fn is_current(there: i64, address: &Address) -> Result<bool> {
    if there > VERSION {
        return Err(Error::configuration(
            format!(
                "{address} was made by a newer tenure: it has schema {there}, this one knows {VERSION}"
            ),
            "upgrade tenure, or choose another database",
        ));
    }
    Ok(there == VERSION)
}
