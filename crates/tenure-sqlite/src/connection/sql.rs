//! The statements of a step.

use std::cell::Cell;

use rusqlite::{CachedStatement, Connection, Params, Row};
use tenure_core::{Error, Result, Token};

use super::{Db, Durability, fault};

/// The largest number of rows that a statement may return, and a listing may step over.
pub(crate) const ROWS_MAX: usize = 50_000;

/// The number of rows that a statement may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// All rows that there are, up to [`ROWS_MAX`].
    All,
    /// At most this many, by the statement's own LIMIT.
    AtMost(usize),
}

/// Runs statements: inside a transaction if it comes from [`Db::write`]. There is no way from
/// here to begin another.
pub(crate) struct Sql<'a> {
    db: &'a Db,
    /// The durability that the writes so far require.
    pub(super) required: Cell<Durability>,
}

impl<'a> Sql<'a> {
    pub(super) fn new(db: &'a Db) -> Self {
        let required = Cell::new(Durability::Crash);
        Self { db, required }
    }

    /// Notes that the transaction writes something that has to be this durable.
    pub(crate) fn require(&self, durability: Durability) {
        self.required.set(self.required.get().max(durability));
    }

    /// Runs a statement that answers with nothing. Returns the number of rows that it changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        let mut statement = self.prepare(sql)?;
        let done = statement.execute(params);
        done.map_err(|error| self.fault(sql, error))
    }

    /// Runs a statement that answers with one row or none.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        let found = statement.query(params).and_then(|mut rows| {
            let row = rows.next()?;
            Ok(row.map(read))
        });
        found.map_err(|error| self.fault(sql, error))?.transpose()
    }

    /// Runs a statement and reads all its rows.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        params: impl Params,
        limit: Rows,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let mut found = Vec::new();
        let done = statement.query(params).and_then(|mut rows| {
            while let Some(row) = rows.next()? {
                if let Err(error) = fits(sql, limit, found.len()) {
                    return Ok(Err(error));
                }
                match read(row) {
                    Ok(row) => found.push(row),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(()))
        });
        done.map_err(|error| self.fault(sql, error))??;
        Ok(found)
    }

    /// Draws the next token, above `floor`: see [`Anchor::draw`](crate::anchor::Anchor::draw).
    pub(crate) fn draw(&self, floor: Token) -> Result<Token> {
        self.db.anchor.draw(floor)
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        #[cfg(test)]
        self.db.prepared.borrow_mut().insert(sql.to_owned());
        let connection: &Connection = &self.db.connection;
        let prepared = connection.prepare_cached(sql);
        prepared.map_err(|error| self.fault(sql, error))
    }

    fn fault(&self, sql: &str, error: rusqlite::Error) -> Error {
        fault::from_sqlite(&self.db.path, sql, error)
    }
}

/// Refuses a row beyond the number that a statement may return.
fn fits(sql: &str, limit: Rows, found: usize) -> Result<()> {
    match limit {
        Rows::AtMost(limit) if found >= limit => {
            let problem = format!("more than {limit} rows, in: {sql}");
            Err(Error::Internal(problem))
        }
        Rows::All if found >= ROWS_MAX => Err(fault::too_many()),
        _ => Ok(()),
    }
}
