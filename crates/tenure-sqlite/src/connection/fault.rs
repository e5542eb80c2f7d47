//! SQLite's errors as errors of Tenure.

use std::io;
use std::path::Path;

use rusqlite::ffi;
use tenure_core::Error;

use super::busy::busy;
use super::sql::ROWS_MAX;
use crate::platform;

/// Returns the error for an error of SQLite in the database at `path`. `what` is the statement or
/// the action, for a mistake of ours.
pub(crate) fn from_sqlite(path: &Path, what: &str, error: rusqlite::Error) -> Error {
    let (code, message) = match &error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            let message = message.clone().unwrap_or_else(|| failure.to_string());
            (failure.extended_code, message)
        }
        // The value cannot come from Tenure.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => return corrupt(path, &error.to_string()),
        _ => return Error::Internal(format!("{error}, in: {what}")),
    };
    let io = |action, source: io::Error| Error::io(action, path, source);
    match (code, code & 0xff) {
        (_, ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED) => busy(path),
        // A process that may only read meets this while a writer begins or ends to keep the index
        // of the log.
        (ffi::SQLITE_READONLY_RECOVERY | ffi::SQLITE_READONLY_CANTINIT, _) => busy(path),
        // The index of the log could not grow.
        (_, ffi::SQLITE_FULL) | (ffi::SQLITE_IOERR_SHMSIZE, _) => {
            io("write", io::ErrorKind::StorageFull.into())
        }
        (_, ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB) | (ffi::SQLITE_IOERR_SHORT_READ, _) => {
            corrupt(path, &message)
        }
        (_, ffi::SQLITE_READONLY | ffi::SQLITE_PERM) => {
            io("write", platform::why_not_writable(path))
        }
        (_, ffi::SQLITE_CANTOPEN) => io("open", cannot_open(path)),
        (_, ffi::SQLITE_IOERR) => io("use", io::Error::other(message)),
        (_, ffi::SQLITE_NOMEM) => io("use", io::ErrorKind::OutOfMemory.into()),
        _ => Error::Internal(format!("{message} ({code}), in: {what}")),
    }
}

/// Returns the error for a statement that answers with too many rows.
pub(crate) fn too_many() -> Error {
    Error::TooMany {
        what: "what is read of the database".into(),
        limit: ROWS_MAX,
    }
}

fn corrupt(path: &Path, problem: &str) -> Error {
    Error::corrupt(path, problem)
}

/// Returns the reason why a database cannot be opened, which SQLite does not say.
fn cannot_open(path: &Path) -> io::Error {
    match platform::status_at(path) {
        Ok(None) => io::ErrorKind::NotFound.into(),
        Ok(Some(_)) => platform::why_not_writable(path),
        Err(error) => error,
    }
}
