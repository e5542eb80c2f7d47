//! Opens the database, from nothing or from what a crash left.
//!
//! # Steps
//!
//! 1. The directory is made if it is missing; its file system must be one where locks hold.
//! 2. The anchor is opened. If it names the file at the path, and something is in it, that file is
//!    opened, and a short look at its version is all there is to do.
//! 3. Else the file is new, replaced, cut, or was never finished. Then the anchor's opening lock is
//!    taken first: if two hundred processes come at once, one makes the database and the others
//!    wait in line instead of in each other's way.
//! 4. Under it: make sure that no session is alive that may hold leases in a database before this
//!    one; remove a log that has no database, lest its pages become part of the new one; make the
//!    file, make the tables, record the file in the anchor.
//!
//! A crash anywhere in between leaves an anchor that does not name the file, and the next to
//! open does what is left. An older schema is brought up to date in a transaction of its own.
//!
//! # A store that cannot be written
//!
//! If the anchor may be read and not written, as on a read-only disk, the database is opened to be
//! read, provided that the anchor names it and its tables are current; otherwise the store is
//! refused. Looking needs no more, and a write is refused with the error of the system.
//!
//! - With a log, SQLite reads the database and the log. If others have it open for writing,
//!   SQLite reads by the index of the log that they keep, and locks in that index (shared, by a
//!   descriptor that cannot write). Otherwise SQLite makes an index of its own in memory, and
//!   begins again when a writer comes. Both need the files of the log and of its index.
//! - Without a log no process has the database open: Tenure makes a log before anything else, and
//!   never removes it. The file is then all there is, and is read as one that does not change. The
//!   result is told only if there is still no log afterwards ([`Db::has_moved`]); else the database
//!   is opened anew, with its log.
//!
//! # A database that took the place of another
//!
//! Its making and its recording are refused while a session is alive that may hold leases in the
//! one before: see [`anchor`](crate::anchor). The refusal comes at once, before anything of SQLite
//! is touched: what is left of its log may be locked by live sessions.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};
use rustix::fs::FileType;
use tenure_core::internal::OrCannot;
use tenure_core::internal::lock;
use tenure_core::{Error, Result};
use tenure_os::{clock, filesystem};

use super::busy::{busy, is_busy, retry_busy_blocking};
use super::log::Log;
use super::{Access, Db, Durability, fault};
use crate::anchor::{Anchor, Opening};
use crate::platform::{self, FileIdentity, FileStatus};
use crate::private;
use crate::schema::{self, SchemaState};

/// The longest wait for others that make or repair the database.
const OPEN_MAX: Duration = Duration::from_secs(30);

/// Small pages make a short log: a step changes a few rows in a few places, and writes whole
/// pages of it.
const PAGE_SIZE: &str = "PRAGMA page_size = 2048";

/// The length of a page. A shorter file holds no database of ours.
pub(super) const PAGE_BYTES: u64 = 2048;

/// The number of prepared statements that are kept.
const STATEMENTS_MAX: usize = 128;

impl Db {
    /// Makes the directory of a database and takes the links out of its path. `trust` takes a file
    /// system for local that is not known to be.
    pub(crate) fn prepare_path(path: &Path, trust: bool) -> Result<PathBuf> {
        let absolute = std::path::absolute(path).or_cannot("find", path)?;
        let (Some(directory), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(not_a_database(path, "it is a directory"));
        };
        let real = match directory.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(directory)
                    .or_cannot("make", directory)?;
                directory.canonicalize()
            }
            found => found,
        };
        let real = real.or_cannot("find", directory)?;
        if !trust {
            filesystem::require_trusted(&real)?;
        }
        let path = real.join(name);
        private::check_directory(&path)?;
        Ok(path)
    }

    /// Opens the database at a prepared path, making it and what is beside it where that is
    /// missing.
    ///
    /// Waits up to half a minute for others that are making or repairing it. A database that took
    /// the place of another and may not be taken yet is refused at once.
    pub(crate) fn open(path: &Path) -> Result<Db> {
        retry_busy_blocking(OPEN_MAX, || open_once(path))
    }

    /// Opens the database again without waiting, and makes its directory, which may be gone as
    /// well. Fails at once if the database is busy.
    pub(crate) fn reopen(path: &Path, trust: bool) -> Result<Db> {
        open_once(&Self::prepare_path(path, trust)?)
    }
}

fn open_once(path: &Path) -> Result<Db> {
    private::check_files(path)?;
    let anchor = match Anchor::open(path) {
        Err(error) if is_write_forbidden(&error) => return open_to_read(path, error),
        anchor => &Arc::new(anchor?),
    };
    if let Some(here) = database_at(path)?
        && here.length >= PAGE_BYTES
        && anchor.names(here.identity)?
    {
        // If it was replaced between the look at it and its opening, the anchor may not name it.
        let mut db = connect(path, anchor, Access::Write)?;
        if db.identity != Some(here.identity) {
            return Err(busy(path));
        }
        let found = schema::look(&db.connection);
        match found.map_err(|error| fault::from_sqlite(path, "look", error))? {
            // It was emptied in place: it is as new, and is made like a new one.
            SchemaState::Empty => drop(db),
            found => {
                if schema::needs_work(path, found)? {
                    bring_up_to_date(&db, None)?;
                }
                know_log(&mut db)?;
                return Ok(db);
            }
        }
    }
    let opening = anchor.begin_opening()?;
    make(path, anchor, &opening)
}

fn is_write_forbidden(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let Error::Io { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Opens a database that may be read and not written. If it cannot be read as it is, returns
/// `error`, which says why it cannot be written.
fn open_to_read(path: &Path, error: Error) -> Result<Db> {
    let Some(anchor) = Anchor::open_to_look(path)? else {
        return Err(error);
    };
    let log = platform::status_at(&beside(path, "-wal")).or_cannot("look at", path)?;
    let access = match log {
        Some(_) => Access::Read,
        None => Access::ReadAtRest,
    };
    match database_at(path)? {
        Some(here) if here.length >= PAGE_BYTES && anchor.names(here.identity)? => {}
        _ => return Err(error),
    }
    let mut db = connect(path, &Arc::new(anchor), access)?;
    match schema::look(&db.connection) {
        Ok(SchemaState::Current) => {}
        Ok(_) => return Err(error),
        Err(found) => {
            let found = fault::from_sqlite(path, "look", found);
            return Err(if is_busy(&found) { found } else { error });
        }
    }
    know_log(&mut db)?;
    Ok(db)
}

/// Makes the database, or what is left of it, and records which file it is.
fn make(path: &Path, anchor: &Arc<Anchor>, opening: &Opening<'_>) -> Result<Db> {
    let here = database_at(path)?;
    let is_named = match here {
        Some(here) => here.length > 0 && anchor.names(here.identity)?,
        None => false,
    };
    if !is_named {
        opening.check_nobody_lives()?;
    }
    if here.is_none_or(|here| here.length == 0) {
        for left in [beside(path, "-wal"), beside(path, "-shm")] {
            platform::unlink(&left).or_cannot("remove", &left)?;
        }
    }
    if here.is_none() {
        // No part of this process has it open yet: see `OPENING`.
        let _opening = lock(&OPENING);
        platform::create_new(path).or_cannot("create", path)?;
    }
    let mut db = connect(path, anchor, Access::Write)?;
    let Some(identity) = db.identity else {
        return Err(busy(path));
    };
    let found =
        schema::look(&db.connection).map_err(|error| fault::from_sqlite(path, "look", error))?;
    let needs_work = schema::needs_work(path, found)?;
    use_log(&db)?;
    if needs_work {
        bring_up_to_date(&db, Some(opening))?;
    }
    opening.adopt(identity)?;
    know_log(&mut db)?;
    Ok(db)
}

/// Notes which file the log is. It was opened with the first look into the database; if it was
/// taken away since, there is another one at its path, or none.
fn know_log(db: &mut Db) -> Result<()> {
    let here = platform::status_at(&db.log_path).or_cannot("look at", &db.log_path)?;
    db.log_identity = here.map(|here| here.identity);
    Ok(())
}

/// Returns the path of a file that SQLite or the store keeps beside the database.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    PathBuf::from(path)
}

/// Returns the status of the database, or `None` if there is none. Refuses a link or a directory.
fn database_at(path: &Path) -> Result<Option<FileStatus>> {
    let status = platform::status_at(path).or_cannot("look at", path)?;
    match status {
        None => Ok(None),
        Some(status) => match status.kind {
            FileType::RegularFile => Ok(Some(status)),
            FileType::Directory => Err(not_a_database(
                path,
                "it is a directory; name the file in it, as in DIR/tenure.db",
            )),
            FileType::Symlink => Err(not_a_database(path, "it is a symbolic link")),
            _ => Err(not_a_database(path, "it is not a regular file")),
        },
    }
}

fn not_a_database(path: &Path, problem: &str) -> Error {
    Error::configuration(
        format!("{} cannot be the database: {problem}", path.display()),
        "choose another place with {.store}",
    )
}

/// Held while a database file is created and while one is opened. Creating it closes a
/// descriptor of it, which drops all locks this process has on the file: none may be there.
static OPENING: Mutex<()> = Mutex::new(());

fn connect(path: &Path, anchor: &Arc<Anchor>, access: Access) -> Result<Db> {
    let _opening = lock(&OPENING);
    // SQLite must not create it: it would not be for its owner only.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let (flags, name) = match access {
        Access::Write => (flags | OpenFlags::SQLITE_OPEN_READ_WRITE, path.to_owned()),
        Access::Read => (flags | OpenFlags::SQLITE_OPEN_READ_ONLY, path.to_owned()),
        Access::ReadAtRest => {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            (flags | OpenFlags::SQLITE_OPEN_READ_ONLY, unchanging(path))
        }
    };
    let failed = |error| match fault::from_sqlite(path, "open", error) {
        // It was deleted between the look at it and now.
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => busy(path),
        error => error,
    };
    let before = database_at(path)?;
    let connection = Connection::open_with_flags(name, flags).map_err(failed)?;
    let identity = identity_of(&connection, path, before)?;
    configure(&connection).map_err(failed)?;
    let log = Log::watch(&connection);
    let read_only = connection.is_readonly(c"main").map_err(failed)?;
    if read_only && access == Access::Write {
        let why = platform::why_not_writable(path);
        return Err(Error::io("write", path, why));
    }
    Ok(Db {
        connection: std::mem::ManuallyDrop::new(connection),
        path: path.to_owned(),
        log_path: beside(path, "-wal"),
        identity,
        log_identity: None,
        anchor: Arc::clone(anchor),
        log,
        durability: Durability::Crash,
        access,
        process: std::process::id(),
        #[cfg(test)]
        prepared: Default::default(),
    })
}

/// Returns a name by which SQLite takes a file for one that does not change: it neither locks it
/// nor looks for a log.
fn unchanging(path: &Path) -> PathBuf {
    let mut name = OsString::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => name.push(format!("%{byte:02x}")),
            _ => name.push(OsStr::from_bytes(&[*byte])),
        }
    }
    name.push("?immutable=1");
    PathBuf::from(name)
}

/// Returns the file that a connection has open, or `None` if it was replaced meanwhile. SQLite only
/// says if it is still the one at the path, so the path must lead to one file before and after.
fn identity_of(
    connection: &Connection,
    path: &Path,
    before: Option<FileStatus>,
) -> Result<Option<FileIdentity>> {
    let mut moved = 0;
    let asked = connection.file_control(Some(c"main"), FileControl::HasMoved(&mut moved));
    let after = database_at(path)?.map(|after| after.identity);
    let same = after == before.map(|before| before.identity);
    Ok(after.filter(|_| asked.is_ok() && moved == 0 && same))
}

/// Sets up the connection. None of the settings reads the file.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    use DbConfig::*;
    connection.busy_timeout(Duration::ZERO)?;
    for (setting, on) in [
        (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
        (SQLITE_DBCONFIG_DEFENSIVE, true),
        (SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (SQLITE_DBCONFIG_ENABLE_FKEY, false),
        (SQLITE_DBCONFIG_DQS_DML, false),
        (SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        connection.set_db_config(setting, on)?;
    }
    // The log stays when the last connection closes: making it anew costs more than reading it.
    connection.file_control(Some(c"main"), FileControl::PersistWal(&mut 1))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Room for the inner pages of a million leases; taken only as it is needed.
    connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000")
}

/// Sets the page size of a database that is empty, and turns the log on. Both stay in the file.
fn use_log(db: &Db) -> Result<()> {
    let pages = db.connection.execute_batch(PAGE_SIZE);
    pages.map_err(|error| fault::from_sqlite(&db.path, PAGE_SIZE, error))?;
    let sql = "PRAGMA journal_mode = WAL";
    let mode = db
        .connection
        .query_row(sql, [], |row| row.get::<_, String>(0));
    let mode = mode.map_err(|error| fault::from_sqlite(&db.path, sql, error))?;
    match mode.as_str() {
        "wal" => Ok(()),
        // If a reader is in the way, SQLite returns the old mode.
        _ => Err(busy(&db.path)),
    }
}

/// Makes the missing steps in one transaction, unless another process was quicker. A database is
/// only made from nothing with the right to it.
fn bring_up_to_date(db: &Db, opening: Option<&Opening<'_>>) -> Result<()> {
    let failed = |what: &'static str| move |error| fault::from_sqlite(&db.path, what, error);
    let transaction = db.begin("BEGIN IMMEDIATE")?;
    let found = schema::look(&db.connection).map_err(failed("look"))?;
    match (found, opening) {
        (SchemaState::Current, _) => {}
        (SchemaState::Older(version), _) => {
            schema::migrate(&db.connection, version).map_err(failed("migrate"))?;
        }
        (SchemaState::Empty, Some(opening)) => {
            opening.check_nobody_lives()?;
            schema::migrate(&db.connection, 0).map_err(failed("migrate"))?;
            let sql = "INSERT INTO store (id, made_at) VALUES (?1, ?2)";
            let id = u128::from_le_bytes(tenure_os::random::bytes());
            let row = (format!("{id:032x}"), clock::now().to_string());
            db.connection.execute(sql, row).map_err(failed(sql))?;
        }
        (SchemaState::Empty, None) => return Err(busy(&db.path)),
        (found, _) => schema::needs_work(&db.path, found).map(drop)?,
    }
    transaction.commit()
}
