//! An examination of the database, its content and the files beside it, for a person.
//!
//! Nothing is changed. Reading every page takes as long as the database is big; meanwhile
//! others go on reading and writing, but the log cannot be folded.
//!
//! Each part is examined for itself: damage in one place is told together with all that can still
//! be read elsewhere.

use std::path::Path;

use tenure_core::internal::OrCannot;
use tenure_core::store::Found;
use tenure_core::{Error, Examined, Result, SessionId};

use super::inner::Inner;
use super::row::{number, text};
use super::sessions;
use crate::connection::{Sql, beside, retry_busy};
use crate::platform;
use crate::session_file::{self, Proof};

/// Sessions looked at in one statement.
const PAGE: usize = 500;

impl Inner {
    /// Examines all parts, and reports on each.
    pub(super) async fn examine(&self) -> Vec<Examined> {
        let found = [
            ("schema", self.tables().await),
            ("integrity", self.pages().await),
            ("anchor", self.anchored()),
            ("journal", self.journal().await),
            ("sessions", self.count_sessions().await),
            ("size", self.size()),
        ];
        let told = found.into_iter().map(|(name, found)| {
            let found = found.unwrap_or_else(|error| self.cannot_look(&error));
            found.of(name)
        });
        told.collect()
    }

    fn cannot_look(&self, error: &Error) -> Found {
        let remedy = match error {
            Error::Corrupt { .. } => self.start_anew().into(),
            _ => error.remedy(),
        };
        Found::bad(error.to_string(), remedy)
    }

    /// Returns the remedy for a database that cannot be relied on. Its log belongs to it, and to no
    /// other; the anchor stays, or tokens could go back.
    fn start_anew(&self) -> String {
        let path = self.path.display();
        format!(
            "when nothing is held, move {path} away, and {path}-wal and {path}-shm with it: the \
             next use makes a new database. Leave {path}-anchor, which keeps tokens from going \
             back"
        )
    }

    /// Reads, also from a database that is no longer at its path.
    async fn look<T>(&self, mut work: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        retry_busy(|| self.db()?.read(&mut work)).await
    }

    /// Examines the tables, and the name of the store.
    async fn tables(&self) -> Result<Found> {
        let (version, store) = self
            .look(|sql| {
                let version = sql.one("PRAGMA user_version", [], |row| number::<i64>(row, 0))?;
                let store = sql.one("SELECT id, made_at FROM store", [], |row| {
                    Ok((text(row, 0)?, text(row, 1)?))
                })?;
                Ok((version.unwrap_or_default(), store))
            })
            .await?;
        let Some((id, made_at)) = store else {
            let problem = format!("schema {version}, but the name of the store is missing");
            return Ok(Found::bad(problem, self.start_anew()));
        };
        let told = format!("version {version}, store {id}, made at {made_at}");
        Ok(Found::good(told))
    }

    /// Examines every page.
    async fn pages(&self) -> Result<Found> {
        const CHECK: &str = "PRAGMA quick_check(1)";
        let said = self
            .look(|sql| sql.one(CHECK, [], |row| text(row, 0)))
            .await?;
        Ok(match said.as_deref() {
            Some("ok") => Found::good("every page is sound"),
            Some(problem) => Found::bad(
                format!("the database is damaged: {}", first_problem(problem)),
                self.start_anew(),
            ),
            None => Found::bad("the database cannot be checked", self.start_anew()),
        })
    }

    /// Examines whether the anchor names the file that is in use.
    fn anchored(&self) -> Result<Found> {
        let here = platform::status_at(&self.path).or_cannot("look at", &self.path)?;
        let db = self.db()?;
        let anchor = format!("{}-anchor", self.path.display());
        let named = match here {
            Some(here) => !db.has_moved() && db.anchor().names(here.identity)?,
            None => false,
        };
        Ok(match named {
            true => Found::good(format!("{anchor} names this database")),
            false => Found::bad(
                format!(
                    "{} was deleted or replaced a moment ago",
                    self.path.display()
                ),
                "look again in a moment; if it stays so, find out what replaces it",
            ),
        })
    }

    /// Examines whether it keeps a log. Another program can turn it off for good.
    async fn journal(&self) -> Result<Found> {
        let mode = self
            .look(|sql| sql.one("PRAGMA journal_mode", [], |row| text(row, 0)))
            .await?;
        let path = self.path.display();
        Ok(match mode.as_deref() {
            Some("wal") => Found::good("write-ahead log"),
            other => Found::bad(
                format!(
                    "{}, not a write-ahead log: readers and writers are in each other's way",
                    other.unwrap_or("none")
                ),
                format!("when nothing is held: sqlite3 {path} 'PRAGMA journal_mode = WAL'"),
            ),
        })
    }

    /// Examines the proofs of sessions, and the leftovers of dead ones.
    async fn count_sessions(&self) -> Result<Found> {
        let (mut alive, mut dead, mut unknown) = (0, 0, 0);
        let mut after = String::new();
        loop {
            let page = self.look(|sql| {
                let page = sessions::page(sql, &after, PAGE)?;
                let proofs = page.iter().map(|one| self.sessions.prove(sql, one));
                let proofs = proofs.collect::<Result<Vec<_>>>()?;
                Ok((page.last().map(SessionId::to_string), proofs))
            });
            let (last, proofs) = page.await?;
            for proof in proofs {
                match proof {
                    Proof::Alive => alive += 1,
                    Proof::Dead => dead += 1,
                    Proof::Unknown => unknown += 1,
                }
            }
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
        let mut told = format!("{alive} alive, {dead} dead, {unknown} unknown");
        match self.files_without_a_row().await? {
            0 => {}
            1 => told.push_str("; 1 file of a session that has no row"),
            files => told.push_str(&format!("; {files} files of sessions that have no row")),
        }
        Ok(Found::good(told))
    }

    /// Returns the number of sessions that have a file alone: they begin or end just now, or died
    /// doing so.
    async fn files_without_a_row(&self) -> Result<usize> {
        let mut count = 0;
        for path in session_file::files(&self.sessions.directory)? {
            let path = path?;
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(session) = name.and_then(|name| SessionId::parse(name).ok()) else {
                continue;
            };
            let recorded = self.look(|sql| sessions::is_recorded(sql, &session));
            // A row is deleted before its file: one that just ended has neither.
            if !recorded.await? && path.exists() {
                count += 1;
            }
        }
        Ok(count)
    }

    /// Examines its size. A log that is not there counts as empty.
    fn size(&self) -> Result<Found> {
        let (database, log) = (bytes(&self.path)?, bytes(&beside(&self.path, "-wal"))?);
        let told = format!("database {}, log {}", in_units(database), in_units(log));
        Ok(Found::good(told))
    }
}

/// Returns the first problem: SQLite puts a heading over all of them.
fn first_problem(said: &str) -> &str {
    let mut lines = said.lines().filter(|line| !line.starts_with("***"));
    lines.next().unwrap_or(said)
}

fn bytes(path: &Path) -> Result<u64> {
    let status = platform::status_at(path).or_cannot("look at", path)?;
    Ok(status.map_or(0, |status| status.length))
}

/// Returns a size such as `12 KiB`, rounded up: only an empty file has the size zero.
fn in_units(bytes: u64) -> String {
    match bytes.div_ceil(1024) {
        kib if kib < 10 * 1024 => format!("{kib} KiB"),
        kib => format!("{} MiB", kib.div_ceil(1024)),
    }
}

#[cfg(test)]
mod tests;
