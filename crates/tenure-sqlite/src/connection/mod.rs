//! The connection of this process to the database.
//!
//! # Invariants
//!
//! - A write is one `BEGIN IMMEDIATE` transaction: no other connection writes from its first
//!   statement on, so what it reads is what it changes. A step gets [`Sql`], which cannot begin
//!   another.
//! - A read is one transaction, too, and so sees one moment. It also costs the kernel less: SQLite
//!   locks and unlocks once for each transaction, and every process that has the database open
//!   makes that longer.
//! - SQLite never waits for a busy database: the caller is told at once, and waits for as long as
//!   [`BusyPauses`] says before it tries again.
//! - Nothing else in this process opens the database file: closing it would drop SQLite's
//!   locks, which belong to the process and not to the descriptor.
//!
//! # Crashes
//!
//! A process killed in a transaction leaves nothing of it: the next writer finds the log without a
//! commit at its end. Its locks end with it. A process killed while it opens leaves a directory, an
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
use tenure_os::blocking::blocking;

pub(crate) use busy::{BusyPauses, busy, is_busy, retry_busy, retry_busy_blocking};
pub(crate) use open::beside;
pub(crate) use sql::{ROWS_MAX, Rows, Sql};

use crate::anchor::Anchor;
use crate::platform::{self, FileIdentity};
use crate::schema;
use log::Log;

/// The worst event that a committed write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Returns the path of the database, without links in its directory.
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
        let transaction = self.begin("BEGIN")?;
        let done = work(&Sql::new(self))?;
        transaction.commit()?;
        Ok(done)
    }

    /// Makes one step: all of it, or, if `work` fails, nothing. It is as durable as `floor`, and
    /// as what `work` writes [requires](Sql::require).
    ///
    /// SQLite has to know the durability of a transaction before it begins. A step that requires
    /// more than `floor` is therefore rolled back and made again.
    ///
    /// A busy database fails at once, for the caller to try again.
    pub(crate) fn write<T>(
        &mut self,
        floor: Durability,
        mut work: impl FnMut(&Sql<'_>) -> Result<T>,
    ) -> Result<T> {
        self.check_process()?;
        self.check_writable()?;
        let mut durability = floor;
        loop {
            self.set_durability(durability)?;
            let transaction = self.begin("BEGIN IMMEDIATE")?;
            #[cfg(test)]
            tests::WRITES.set(tests::WRITES.get() + 1);
            self.check_version()?;
            let sql = Sql::new(self);
            let done = work(&sql)?;
            let required = sql.required.get();
            if required <= durability {
                match durability {
                    Durability::Crash => transaction.commit()?,
                    Durability::PowerLoss => blocking(|| transaction.commit())?,
                }
                return Ok(done);
            }
            durability = required;
        }
    }

    /// Returns true if the store has to be opened again, since its writes would reach no other
    /// process. The file at the path is no longer the one that is open, or is empty: it was
    /// deleted, replaced or cut. Or a database that was opened without a log has one: it is in use
    /// by now.
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

    /// Returns true if the log at its path is no longer the one that is open. Tenure never removes
    /// a log, and SQLite does not while a process has it open.
    pub(crate) fn has_lost_its_log(&self) -> bool {
        let Ok(Some(here)) = platform::status_at(&self.log_path) else {
            return true;
        };
        Some(here.identity) != self.log_identity
    }

    fn begin(&self, sql: &str) -> Result<Transaction<'_>> {
        self.run(sql)?;
        Ok(Transaction(self))
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

/// A transaction that is rolled back unless it is committed. A panic in a step must not leave it
/// open for the next one.
struct Transaction<'a>(&'a Db);

impl Transaction<'_> {
    fn commit(self) -> Result<()> {
        self.0.run("COMMIT")
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SQLite itself rolls back after some faults, a full disk for one.
        if !self.0.connection.is_autocommit() {
            // If even this fails, the next transaction cannot begin and says why.
            let _ = self.0.run("ROLLBACK");
        }
    }
}
