//! Expensive work on a row, done by one caller.
//!
//! 1. Lock the row without waiting, inside a savepoint. If another transaction has it, go back to
//!    the savepoint, so that the caller's transaction goes on, and do nothing.
//! 2. Look at the row as it is now. If the work is done, that is the answer.
//! 3. Do the work. The row stays locked until the caller's transaction ends, so the caller writes
//!    the result in it.
//!
//! A crash at any step ends the transaction, and frees the row for the next caller.

use std::future::Future;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Transaction};

/// Works on a row. Returns `None` if another transaction has the row locked, or there is no such
/// row.
///
/// `select` finds one row by its parameters, without a lock clause: ` FOR UPDATE NOWAIT` is added.
/// `done` returns the result if it is there already, and then no work is done. The caller writes
/// the result of the work in the same transaction, and commits.
///
/// # Errors
///
/// Errors of the database, other than that the row is locked, and the work's own.
pub async fn once<T, E, W>(
    transaction: &mut Transaction<'_>,
    select: &str,
    parameters: &[&(dyn ToSql + Sync)],
    done: impl FnOnce(&Row) -> Option<T>,
    work: impl FnOnce(Row) -> W,
) -> Result<Option<T>, E>
where
    E: From<Error>,
    W: Future<Output = Result<T, E>>,
{
    let Some(row) = lock_row(transaction, select, parameters).await? else {
        return Ok(None);
    };
    match done(&row) {
        Some(there) => Ok(Some(there)),
        None => work(row).await.map(Some),
    }
}

/// Returns the row, locked, as it is now, or `None` if it is not there or another transaction has
/// it.
async fn lock_row(
    transaction: &mut Transaction<'_>,
    select: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>, Error> {
    let savepoint = transaction.savepoint("tenure_once").await?;
    let locking = format!("{select} FOR UPDATE NOWAIT");
    match savepoint.query_opt(&locking, parameters).await {
        Ok(row) => {
            // The lock stays: it now belongs to the outer transaction.
            savepoint.commit().await?;
            Ok(row)
        }
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            savepoint.rollback().await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
