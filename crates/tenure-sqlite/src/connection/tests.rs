use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;
use std::time::Duration;

use rusqlite::params;
use tenure_core::{Class, SessionId, Token};

use std::path::Path;

use super::*;
use crate::anchor::is_replaced;
use crate::schema::VERSION;
use crate::schema::tests::take_back_to_the_first_step;
use crate::session_file::SessionFile;

thread_local! {
    /// The number of write transactions that this thread has begun.
    pub(crate) static WRITES: Cell<u32> = const { Cell::new(0) };
}

/// Does some work inside every commit from now on, before it is written.
pub(crate) fn at_commit(db: &mut Db, mut work: impl FnMut() + Send + 'static) {
    let hook = move || {
        work();
        false
    };
    db.connection.commit_hook(Some(hook)).unwrap();
}

struct Stage {
    root: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("deep/down/t.db")
    }

    fn beside(&self, end: &str) -> PathBuf {
        PathBuf::from(format!("{}{end}", self.path().display()))
    }

    fn open(&self) -> Db {
        open(&self.path()).unwrap()
    }

    fn refused(&self) -> Error {
        open(&self.path()).err().expect("it is refused")
    }

    fn session(&self) -> SessionFile {
        let directory = self.path().with_file_name("sessions");
        SessionFile::begin(&directory, &SessionId::parse("s").unwrap()).unwrap()
    }

    fn remove_database(&self) {
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(self.beside(end)).unwrap();
        }
    }
}

fn open(path: &Path) -> Result<Db> {
    Db::open(&Db::prepare_path(path, true)?)
}

const SET: &str = "INSERT OR REPLACE INTO resources (resource, token) VALUES (?1, ?2)";
const COUNT: &str = "SELECT count(*) FROM resources";

fn set(db: &mut Db, resource: &str, token: i64) -> Result<usize> {
    db.write(Durability::Crash, |sql| {
        sql.execute(SET, params![resource, token])
    })
}

fn count(db: &Db) -> i64 {
    let count = db.read(|sql| sql.one(COUNT, [], |row| Ok(row.get(0).unwrap())));
    count.unwrap().unwrap()
}

#[test]
fn everything_is_made_for_its_owner_only() {
    let stage = Stage::new();
    let mut db = stage.open();
    set(&mut db, "name:x", 1).unwrap();
    db.anchor().draw(Token::NONE).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(stage.path().parent().unwrap()), 0o700);
    for end in ["", "-wal", "-shm", "-anchor"] {
        assert_eq!(mode(&stage.beside(end)), 0o600, "{end}");
    }
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let stage = Stage::new();
    set(&mut stage.open(), "name:x", 1).unwrap();
    assert!(stage.beside("-wal").exists(), "the log stays");
    assert_eq!(count(&stage.open()), 1);
}

#[test]
fn a_step_that_fails_leaves_nothing_and_the_next_one_works() {
    let stage = Stage::new();
    let mut db = stage.open();
    let failed = db.write(Durability::PowerLoss, |sql| {
        sql.execute(SET, params!["name:x", 1])?;
        Err::<(), _>(Error::NotFound("on purpose".into()))
    });
    assert!(matches!(failed, Err(Error::NotFound(_))));
    assert_eq!(count(&db), 0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.write(Durability::Crash, |sql| -> Result<()> {
            sql.execute(SET, params!["name:x", 1])?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(count(&db), 0);
    set(&mut db, "name:x", 1).unwrap();
    assert_eq!(count(&db), 1);
}

#[test]
fn a_busy_database_is_told_at_once_and_reads_go_on() {
    let stage = Stage::new();
    let (mut one, mut two) = (stage.open(), stage.open());
    one.write(Durability::Crash, |sql| {
        sql.execute(SET, params!["name:x", 1])?;
        let error = set(&mut two, "name:y", 1).unwrap_err();
        assert!(is_busy(&error) && error.is_passing(), "{error}");
        assert_eq!(count(&two), 0);
        Ok(())
    })
    .unwrap();
    set(&mut two, "name:y", 1).unwrap();
}

/// Fills a table with so many rows.
fn fill(db: &mut Db, rows: i64) {
    let fill = "INSERT INTO resources SELECT printf('name:%08d', value), value \
                FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n \
                WHERE value < ?1) SELECT value FROM n)";
    let connection: &Connection = &db.connection;
    connection.execute(fill, [rows]).unwrap();
}

#[test]
fn no_more_rows_are_read_than_are_allowed() {
    let stage = Stage::new();
    let mut db = stage.open();
    fill(&mut db, 50_001);
    let up_to = |last: i64| {
        let rows = "SELECT token FROM resources WHERE token <= ?1";
        db.read(|sql| sql.query(rows, [last], Rows::All, |_| Ok(())))
    };
    assert_eq!(up_to(50_000).unwrap().len(), 50_000);
    let error = up_to(50_001).unwrap_err();
    assert!(
        matches!(error, Error::TooMany { limit: 50_000, .. }),
        "{error}"
    );
}

#[test]
fn a_statement_without_its_limit_is_a_mistake_of_ours() {
    let stage = Stage::new();
    let mut db = stage.open();
    fill(&mut db, 3);
    let all = "SELECT token FROM resources";
    let error = db.read(|sql| sql.query(all, [], Rows::AtMost(2), |_| Ok(())));
    assert_eq!(error.unwrap_err().class(), Class::Internal);
}

#[test]
fn a_newer_database_is_refused_at_opening_and_in_the_middle_of_use() {
    let stage = Stage::new();
    let mut db = stage.open();
    set(&mut db, "name:x", 1).unwrap();
    let newer = stage.open();
    newer
        .connection
        .execute_batch(&format!("PRAGMA user_version = {}", VERSION + 1))
        .unwrap();
    for error in [set(&mut db, "name:y", 1).unwrap_err(), stage.refused()] {
        assert_eq!(error.class(), Class::Configuration);
        assert!(
            error
                .to_string()
                .contains(&format!("schema {}, this one knows {VERSION}", VERSION + 1)),
            "{error}"
        );
        assert!(error.remedy().to_string().contains("upgrade tenure"));
    }
    assert_eq!(count(&db), 1);
}

#[test]
fn an_older_database_is_brought_up_to_date_with_all_that_is_in_it() {
    let stage = Stage::new();
    let mut db = stage.open();
    set(&mut db, "name:x", 1).unwrap();
    take_back_to_the_first_step(&db.connection);
    drop(db);
    let db = stage.open();
    assert_eq!(count(&db), 1);
    let keys = db.read(|sql| sql.query("SELECT 1 FROM keys", [], Rows::All, |_| Ok(())));
    assert!(keys.unwrap().is_empty());
}

#[test]
fn what_is_not_ours_is_refused_and_left_untouched() {
    for make in [
        (|path| {
            let other = Connection::open(path).unwrap();
            other.execute_batch("CREATE TABLE notes (text)").unwrap();
        }) as fn(&Path),
        |path| fs::write(path, "just a text, and a long one".repeat(100)).unwrap(),
    ] {
        let stage = Stage::new();
        fs::create_dir_all(stage.path().parent().unwrap()).unwrap();
        make(&stage.path());
        let before = fs::read(stage.path()).unwrap();
        let error = stage.refused();
        let expected = [Class::Configuration, Class::BadInput];
        assert!(expected.contains(&error.class()), "{error}");
        assert_eq!(fs::read(stage.path()).unwrap(), before);
    }
}

#[test]
fn a_link_or_a_directory_is_no_database() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path()).unwrap();
    let error = stage.refused();
    assert!(error.to_string().contains("name the file in it"), "{error}");
    fs::remove_dir(stage.path()).unwrap();
    symlink("elsewhere.db", stage.path()).unwrap();
    assert!(stage.refused().to_string().contains("symbolic link"));
    assert!(!stage.path().with_file_name("elsewhere.db").exists());
}

#[test]
fn a_directory_behind_a_link_is_the_same_store() {
    let stage = Stage::new();
    set(&mut stage.open(), "name:x", 1).unwrap();
    let link = stage.root.path().join("link");
    symlink(stage.path().parent().unwrap(), &link).unwrap();
    let db = open(&link.join("t.db")).unwrap();
    assert_eq!(count(&db), 1);
    assert_eq!(db.path(), stage.path().canonicalize().unwrap());
}

#[test]
fn a_deleted_database_is_noticed_and_made_anew_when_nobody_is_alive() {
    let stage = Stage::new();
    let mut db = stage.open();
    set(&mut db, "name:x", 1).unwrap();
    let before = db.anchor().draw(Token::NONE).unwrap();
    let session = stage.session();
    assert!(!db.has_moved());
    stage.remove_database();
    assert!(db.has_moved());
    for _ in 0..2 {
        let error = stage.refused();
        assert!(is_replaced(&error) && error.is_passing(), "{error}");
    }
    drop(session);
    let new = stage.open();
    assert_eq!(count(&new), 0);
    assert!(new.anchor().draw(Token::NONE).unwrap() > before);
    assert!(db.has_moved() && !new.has_moved());
}

#[test]
fn a_database_replaced_by_a_copy_is_adopted_when_nobody_is_alive() {
    let stage = Stage::new();
    set(&mut stage.open(), "name:x", 1).unwrap();
    let db = stage.open();
    let session = stage.session();
    let copy = stage.beside("-copy");
    fs::copy(stage.path(), &copy).unwrap();
    fs::rename(&copy, stage.path()).unwrap();
    assert!(db.has_moved());
    assert!(is_replaced(&stage.refused()));
    drop((session, db));
    stage.open();
}

#[test]
fn a_database_cut_to_nothing_is_made_anew_only_when_nobody_is_alive() {
    let stage = Stage::new();
    set(&mut stage.open(), "name:x", 1).unwrap();
    let session = stage.session();
    for end in ["-wal", "-shm"] {
        fs::remove_file(stage.beside(end)).unwrap();
    }
    fs::write(stage.path(), "").unwrap();
    assert!(is_replaced(&stage.refused()));
    // A process that was killed after making the tables, and before anything else, adopts none.
    assert!(is_replaced(&stage.refused()));
    drop(session);
    assert_eq!(count(&stage.open()), 0);
}

#[test]
fn a_database_cut_under_its_user_has_moved_and_a_newcomer_is_told_at_once() {
    let stage = Stage::new();
    let mut db = stage.open();
    set(&mut db, "name:x", 1).unwrap();
    let session = stage.session();
    let file = fs::OpenOptions::new().write(true).open(stage.path());
    file.unwrap().set_len(0).unwrap();
    assert!(db.has_moved());
    let begun = std::time::Instant::now();
    assert!(is_replaced(&stage.refused()));
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop((session, db));
    // The rest of the log is not taken for that of the new database.
    assert_eq!(count(&stage.open()), 0);
}

#[test]
fn a_deleted_database_does_not_come_back_from_what_is_left_of_its_log() {
    let stage = Stage::new();
    set(&mut stage.open(), "name:x", 1).unwrap();
    fs::remove_file(stage.path()).unwrap();
    assert!(stage.beside("-wal").exists());
    let db = stage.open();
    assert_eq!(count(&db), 0);
    assert!(!db.has_moved() && !db.has_lost_its_log());
}

#[test]
fn a_log_that_was_taken_away_is_noticed_and_is_not_folded_into_the_database() {
    let stage = Stage::new();
    set(&mut stage.open(), "name:x", 1).unwrap();
    let mut db = stage.open();
    let folded = "PRAGMA wal_checkpoint(TRUNCATE)";
    db.connection.query_row(folded, [], |_| Ok(())).unwrap();
    assert!(!db.has_lost_its_log());
    for end in ["-wal", "-shm"] {
        fs::remove_file(stage.beside(end)).unwrap();
    }
    assert!(db.has_lost_its_log() && !db.has_moved());
    for round in 0..200 {
        set(&mut db, &format!("name:{round}"), 1).unwrap();
    }
    let before = fs::read(stage.path()).unwrap();
    drop(db);
    assert_eq!(fs::read(stage.path()).unwrap(), before);
    assert_eq!(count(&stage.open()), 1);
}

#[test]
fn a_database_cut_short_is_told_to_be_corrupt() {
    let stage = Stage::new();
    let mut db = stage.open();
    fill(&mut db, 2000);
    let folded = "PRAGMA wal_checkpoint(TRUNCATE)";
    db.connection.query_row(folded, [], |_| Ok(())).unwrap();
    drop(db);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(stage.path())
        .unwrap();
    file.set_len(8192).unwrap();
    let opened = open(&stage.path());
    let error = match opened {
        Err(error) => error,
        Ok(db) => {
            let all = "SELECT resource FROM resources";
            let read = db.read(|sql| sql.query(all, [], Rows::All, |_| Ok(())));
            read.unwrap_err()
        }
    };
    assert_eq!(error.class(), Class::BadInput, "{error}");
    assert!(error.to_string().contains("t.db"), "{error}");
}

#[test]
fn a_full_disk_is_told_and_leaves_the_store_as_it_was() {
    let stage = Stage::new();
    let mut db = stage.open();
    set(&mut db, "name:x", 1).unwrap();
    let full = "PRAGMA max_page_count = 1";
    db.connection.query_row(full, [], |_| Ok(())).unwrap();
    let error = db
        .write(Durability::Crash, |sql| {
            for row in 0..1000 {
                sql.execute(SET, params![format!("name:{row}"), row])?;
            }
            Ok(())
        })
        .unwrap_err();
    let Error::Io { source, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(error.remedy(), "free some disk space".into());
    assert_eq!(count(&db), 1);
    set(&mut db, "name:x", 2).unwrap();
}

#[test]
fn what_a_crash_left_of_the_making_is_gone_on_from() {
    for leave in [
        (|_, _| {}) as fn(&Path, &Path),
        |database, _| fs::write(database, "").unwrap(),
        |_, anchor| fs::write(anchor, "").unwrap(),
        |_, anchor| fs::write(anchor, "half a rec").unwrap(),
        |database, anchor| {
            fs::write(database, "").unwrap();
            fs::write(anchor, "").unwrap();
        },
        |database, _| {
            let half = Connection::open(database).unwrap();
            half.pragma_update(None, "journal_mode", "wal").unwrap();
        },
    ] {
        let stage = Stage::new();
        fs::create_dir_all(stage.path().parent().unwrap()).unwrap();
        leave(&stage.path(), &stage.beside("-anchor"));
        let mut db = stage.open();
        set(&mut db, "name:x", 1).unwrap();
        assert_eq!(count(&stage.open()), 1);
    }
}

/// The bytes of so many pages in the log, each with its header.
const fn log_bytes(pages: u64) -> u64 {
    pages * (2048 + 24) + 32
}

#[test]
fn the_log_of_a_process_at_work_is_bounded() {
    let stage = Stage::new();
    let mut db = stage.open();
    for round in 0..5000 {
        set(&mut db, "name:x", round).unwrap();
    }
    let log = fs::metadata(stage.beside("-wal")).unwrap().len();
    assert!(log < log_bytes(2010), "{log}");
}

#[test]
fn processes_that_come_and_go_leave_a_short_log() {
    let stage = Stage::new();
    for round in 0..500 {
        set(&mut stage.open(), "name:x", round).unwrap();
        let log = fs::metadata(stage.beside("-wal")).unwrap().len();
        assert!(log < log_bytes(210), "{log}");
    }
}

#[test]
fn many_who_open_and_write_at_once_all_do() {
    let stage = Stage::new();
    thread::scope(|scope| {
        for thread in 0..24 {
            let stage = &stage;
            scope.spawn(move || {
                let mut db = stage.open();
                let limit = Duration::from_secs(60);
                let name = format!("name:{thread}");
                retry_busy_blocking(limit, || set(&mut db, &name, 1)).unwrap();
            });
        }
    });
    assert_eq!(count(&stage.open()), 24);
}
