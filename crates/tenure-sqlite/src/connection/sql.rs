//! What a step may do with the database: run single statements, each within its row budget.

use rusqlite::{CachedStatement, Connection, Params, Row};
use tenure_core::{Error, Result, Token};

use super::Db;
use super::budget::ROWS_MAX;
use super::fault;
use crate::anchor::Drawn;

/// How many rows a statement may answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// As many as there are, up to [`ROWS_MAX`].
    All,
    /// As many as the statement's own LIMIT says.
    AtMost(usize),
}

/// Runs statements: inside a transaction if it comes from [`Db::write`]. There is no way from
/// here to begin another.
pub(crate) struct Sql<'a> {
    db: &'a Db,
    limited: bool,
}

impl<'a> Sql<'a> {
    pub(super) fn new(db: &'a Db) -> Self {
        Self { db, limited: true }
    }

    pub(super) fn unlimited(db: &'a Db) -> Self {
        Self { db, limited: false }
    }

    /// Runs a statement that answers with nothing; how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        let mut statement = self.prepare(sql)?;
        self.db.budget.begin(self.limited);
        let done = statement.execute(params);
        let stopped = self.db.budget.end();
        done.map_err(|error| self.fault(sql, error, stopped))
    }

    /// Runs a statement that answers with one row or none.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        self.db.budget.begin(self.limited);
        let found = statement.query(params).and_then(|mut rows| {
            let row = rows.next()?;
            Ok(row.map(read))
        });
        let stopped = self.db.budget.end();
        match found {
            Ok(found) => found.transpose(),
            Err(error) => Err(self.fault(sql, error, stopped)),
        }
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
        self.db.budget.begin(self.limited);
        let done = statement.query(params).and_then(|mut rows| {
            while let Some(row) = rows.next()? {
                if let Err(error) = self.fits(sql, limit, found.len()) {
                    return Ok(Err(error));
                }
                match read(row) {
                    Ok(row) => found.push(row),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(()))
        });
        let stopped = self.db.budget.end();
        done.map_err(|error| self.fault(sql, error, stopped))??;
        Ok(found)
    }

    /// Draws the next token, above `floor`: see [`Anchor::draw`](crate::anchor::Anchor::draw).
    pub(crate) fn draw(&self, floor: Token) -> Result<Drawn> {
        self.db.anchor.draw(floor)
    }

    /// Refuses while someone alive was granted something that this database does not know of:
    /// see [`anchor`](crate::anchor).
    pub(crate) fn check_nothing_is_missing(&self, known: Token) -> Result<()> {
        self.db.anchor.check_nobody_claims_more(known)
    }

    fn fits(&self, sql: &str, limit: Rows, found: usize) -> Result<()> {
        match limit {
            Rows::AtMost(limit) if found >= limit => {
                let problem = format!("more than {limit} rows, in: {sql}");
                Err(Error::Internal(problem))
            }
            Rows::All if self.limited && found >= ROWS_MAX => Err(fault::too_many(sql)),
            _ => Ok(()),
        }
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        let connection: &Connection = &self.db.connection;
        let prepared = connection.prepare_cached(sql);
        prepared.map_err(|error| self.fault(sql, error, false))
    }

    fn fault(&self, sql: &str, error: rusqlite::Error, stopped: bool) -> Error {
        match stopped {
            true => fault::too_many(sql),
            false => fault::from_sqlite(&self.db.path, sql, error),
        }
    }
}
