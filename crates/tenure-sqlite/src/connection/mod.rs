//! The connection of this process to the database.
//!
//! # Invariants
//!
//! - A write is one `BEGIN IMMEDIATE` transaction: nobody else writes from its first statement
//!   on, so what it reads is what it changes. A step gets [`Sql`], which cannot begin another.
//! - A read is one transaction, too, and so sees one moment. It also costs the kernel less: SQLite locks
//!   and unlocks once for each transaction, and every process that has the database open makes
//!   that longer.
//! - The connection is never waited for by SQLite: a busy database is told at once, and
//!   [`retry_busy`] is the one loop that waits.
//! - Nothing else in this process opens the database file: closing it would drop SQLite's
//!   locks, which belong to the process and not to the descriptor.
//!
//! # Crashes
//!
//! A process killed in a transaction leaves nothing of it: the next writer finds the log without
//! a commit at its end. Its locks end with it. One killed while it opens leaves a directory, an
//! empty file, an older schema or an anchor without an identity; the next to open goes on from
//! there (`open`).

mod busy;
mod fault;
mod log;
mod open;
mod sql;
#[cfg(test)]
pub(crate) mod tests;

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tenure_core::{Error, Result};

#[cfg(test)]
pub(crate) use busy::is_busy;
pub(crate) use busy::{busy, retry_busy, retry_busy_blocking, retry_busy_durably};
pub(crate) use sql::{ROWS_MAX, Rows, Sql};

use crate::anchor::Anchor;
use crate::platform::{self, FileIdentity};
use crate::schema;
use log::Log;

/// The durability of a committed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The death of this and every other process.
    Crash,
    /// The loss of power, too: on disk before it is acknowledged.
    PowerLoss,
}

/// The access that this process has to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// It may be read and written.
    Write,
    /// It may only be read.
    Read,
    /// It may only be read, and has no log.
    ReadAtRest,
}

/// One connection of this process.
pub(crate) struct Db {
    /// Left open in a forked child: closing it there would end what the parent has begun.
    connection: ManuallyDrop<Connection>,
    path: PathBuf,
    /// The path of its log.
    log_path: PathBuf,
    /// The identities of its file and of its log, or `None` while they are not known.
    identity: Option<FileIdentity>,
    log_identity: Option<FileIdentity>,
    anchor: Arc<Anchor>,
    log: Arc<Log>,
    /// The durability of the next commit, as SQLite was last told.
    durability: Durability,
    access: Access,
    process: u32,
    /// The statements prepared so far, for the test that looks at their plans.
    #[cfg(test)]
    pub(crate) prepared: std::cell::RefCell<std::collections::BTreeSet<String>>,
}

impl Db {
    /// The database, without links in its directory.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the anchor, which draws tokens and names the file of the database.
    pub(crate) fn anchor(&self) -> &Arc<Anchor> {
        &self.anchor
    }

    /// Reads in one transaction: all of it is of one moment.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Sql<'_>) -> Result<T>) -> Result<T> {
        self.check_process()?;
        self.run("BEGIN")?;
        self.finish(|db| work(&Sql::new(db)))
    }

    /// Makes one step: all of it, or, if `work` fails, nothing.
    ///
    /// A busy database fails at once, for [`retry_busy`] to try again.
    pub(crate) fn write<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Sql<'_>) -> Result<T>,
    ) -> Result<T> {
        self.check_process()?;
        self.check_writable()?;
        self.set_durability(durability)?;
        self.run("BEGIN IMMEDIATE")?;
        #[cfg(test)]
        tests::WRITES.set(tests::WRITES.get() + 1);
        self.finish(|db| {
            db.check_version()?;
            work(&Sql::new(db))
        })
    }

    /// Returns true if the file at the path is no longer the one that is open, or is empty: it was
    /// deleted, replaced or cut. What is written then reaches nobody, and the store is to be opened
    /// again. The same holds if a database that was opened without a log has one: it is in use by now.
    pub(crate) fn has_moved(&self) -> bool {
        if self.access == Access::ReadAtRest
            && !matches!(platform::status_at(&self.log_path), Ok(None))
        {
            return true;
        }
        let Ok(Some(here)) = platform::status_at(&self.path) else {
            return true;
        };
        Some(here.identity) != self.identity || here.length < open::PAGE_BYTES
    }

    /// Returns true if the log at its path is no longer the one that is open. Tenure never removes a log,
    /// and SQLite does not while anyone has it open.
    pub(crate) fn has_lost_its_log(&self) -> bool {
        let Ok(Some(here)) = platform::status_at(&self.log_path) else {
            return true;
        };
        Some(here.identity) != self.log_identity
    }

    /// Commits if `work` succeeds, else rolls back.
    fn finish<T>(&self, work: impl FnOnce(&Db) -> Result<T>) -> Result<T> {
        // A panic in a step must not leave its transaction open for the next one.
        let _rollback = RollBack(self);
        let done = work(self)?;
        self.run("COMMIT")?;
        Ok(done)
    }

    fn run(&self, sql: &str) -> Result<()> {
        let statement = self.connection.prepare_cached(sql);
        let done = statement.and_then(|mut statement| statement.execute([]));
        done.map(drop)
            .map_err(|error| fault::from_sqlite(&self.path, sql, error))
    }

    /// Fails if a newer Tenure changed the tables since this one opened them.
    fn check_version(&self) -> Result<()> {
        const VERSION: &str = "PRAGMA user_version";
        let version = self.connection.prepare_cached(VERSION);
        let version = version.and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        match version.map_err(|error| fault::from_sqlite(&self.path, VERSION, error))? {
            schema::VERSION => Ok(()),
            newer if newer > schema::VERSION => Err(schema::newer(&self.path, newer)),
            _ => Err(Error::corrupt(
                self.path.clone(),
                "its tables are gone: it was written over while it was in use",
            )),
        }
    }

    fn set_durability(&mut self, durability: Durability) -> Result<()> {
        if self.durability == durability {
            return Ok(());
        }
        let sql = match durability {
            Durability::Crash => "PRAGMA synchronous = NORMAL",
            Durability::PowerLoss => "PRAGMA synchronous = FULL",
        };
        // Takes effect while it is prepared, so it must not come from the cache.
        let done = self.connection.execute_batch(sql);
        done.map_err(|error| fault::from_sqlite(&self.path, sql, error))?;
        self.durability = durability;
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read | Access::ReadAtRest => {
                let why = platform::why_not_writable(&self.path);
                Err(Error::io("write", &self.path, why))
            }
        }
    }

    /// Fails in a forked child: SQLite's locks belong to the process that took them.
    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let problem = "the store was opened before a fork; open it again in the child";
        Err(Error::Internal(problem.into()))
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A log that others do not have must not get into the database that they use.
            if !self.has_moved() && !self.has_lost_its_log() {
                self.log.shorten(&self.connection);
            }
            // SAFETY: dropped once, here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.connection) };
        }
    }
}

struct RollBack<'a>(&'a Db);

impl Drop for RollBack<'_> {
    fn drop(&mut self) {
        // SQLite itself rolls back after some faults, a full disk for one.
        if !self.0.connection.is_autocommit() {
            // If even this fails, the next transaction cannot begin and says why.
            let _ = self.0.run("ROLLBACK");
        }
    }
}
