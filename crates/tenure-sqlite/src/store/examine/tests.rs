//! Tests of the examination of sound and unsound databases.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;
use tenure_core::Store;

use super::*;
use crate::SqliteStore;
use crate::connection::Durability;
use crate::session_file::SessionFile;

const PAGE_BYTES: u64 = 2048;

fn store() -> (TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(
        &directory.path().join("s/t.db"),
        crate::OpenOptions::trusting(true),
    )
    .unwrap();
    (directory, store)
}

async fn found(store: &SqliteStore, name: &str) -> Examined {
    let all = store.examine().await.unwrap();
    let one = all.iter().find(|examined| examined.name == name);
    one.unwrap_or_else(|| panic!("{name}: {all:?}")).clone()
}

/// Folds the log, so that the file alone is the database, and returns the page at which a table or
/// an index begins in it.
fn page_of(store: &SqliteStore, name: &str) -> u64 {
    let other = rusqlite::Connection::open(&store.inner.path).unwrap();
    let folded = "PRAGMA wal_checkpoint(TRUNCATE)";
    other.query_row(folded, [], |_| Ok(())).unwrap();
    let select = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page = other.query_row(select, [name], |row| row.get::<_, i64>(0));
    page.unwrap().cast_unsigned()
}

/// Writes over one page, in place: it stays the file that the anchor names.
fn damage(store: SqliteStore, page: u64) -> SqliteStore {
    let path = store.inner.path.to_owned();
    drop(store);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let garbage = vec![0xa5; usize::try_from(PAGE_BYTES).unwrap()];
    file.write_all_at(&garbage, (page - 1) * PAGE_BYTES)
        .unwrap();
    SqliteStore::open(&path, crate::OpenOptions::trusting(true)).unwrap()
}

#[tokio::test]
async fn a_sound_database_is_told_to_be_so_in_every_part() {
    let (_directory, store) = store();
    let all = store.examine().await.unwrap();
    let names: Vec<_> = all.iter().map(|examined| examined.name).collect();
    let expected = [
        "schema",
        "integrity",
        "anchor",
        "journal",
        "sessions",
        "size",
    ];
    assert_eq!(names, expected);
    assert!(all.iter().all(|one| one.good && one.remedy.is_none()));
    let schema = found(&store, "schema").await.text;
    assert!(schema.contains(", store "), "{schema}");
    let version = format!("version {},", crate::schema::VERSION);
    assert!(schema.starts_with(&version), "{schema}");
}

#[tokio::test]
async fn a_damaged_page_is_a_problem_with_what_to_do_and_the_rest_is_still_told() {
    let (_directory, store) = store();
    let page = page_of(&store, "keys_by_age");
    let store = damage(store, page);
    let integrity = found(&store, "integrity").await;
    assert!(!integrity.good, "{integrity:?}");
    assert!(
        integrity.text.starts_with("the database is damaged: "),
        "{integrity:?}"
    );
    assert!(!integrity.text.contains("***") && !integrity.text.contains('\n'));
    let remedy = integrity.remedy.unwrap().to_string();
    for part in ["when nothing is held, move ", "t.db-wal", "Leave ", "new"] {
        assert!(remedy.contains(part), "{part} is not in {remedy}");
    }
    assert!(found(&store, "schema").await.good);
    assert!(found(&store, "sessions").await.good);
}

#[tokio::test]
async fn a_part_that_cannot_be_read_is_a_problem_of_that_part() {
    let (_directory, store) = store();
    let page = page_of(&store, "store");
    let store = damage(store, page);
    let schema = found(&store, "schema").await;
    assert!(!schema.good, "{schema:?}");
    assert!(schema.remedy.unwrap().to_string().contains("move "));
    assert!(found(&store, "journal").await.good);
}

#[tokio::test]
async fn a_log_that_another_program_turned_off_is_a_problem() {
    let (_directory, store) = store();
    let path = store.inner.path.to_owned();
    drop(store);
    let other = rusqlite::Connection::open(&path).unwrap();
    let mode = other.query_row("PRAGMA journal_mode = DELETE", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(mode.unwrap(), "delete");
    drop(other);
    let store = SqliteStore::open(&path, crate::OpenOptions::trusting(true)).unwrap();
    let journal = found(&store, "journal").await;
    assert!(!journal.good && journal.text.starts_with("delete"));
    assert!(
        journal
            .remedy
            .unwrap()
            .to_string()
            .contains("journal_mode = WAL")
    );
}

#[tokio::test]
async fn sessions_are_counted_by_what_is_proved_of_them() {
    let (_directory, store) = store();
    assert_eq!(
        found(&store, "sessions").await.text,
        "0 alive, 0 dead, 0 unknown"
    );
    let directory = store.inner.sessions.directory.to_owned();
    let session = |name: &str| SessionId::parse(name).unwrap();
    let begin = |name: &str| SessionFile::begin(&directory, &session(name)).unwrap();
    let (alive, dead, gone) = (begin("a"), begin("d"), begin("u"));
    let boot = tenure_os::clock::boot_id().unwrap();
    for (name, file) in [("a", &alive), ("d", &dead), ("u", &gone)] {
        let row = format!(
            "INSERT INTO sessions VALUES ('{name}', {}, {}, '{boot}', 1, 'h', 'o', 't')",
            file.identity().device,
            file.identity().inode
        );
        let done = store
            .inner
            .write_once(Durability::Crash, |step| step.sql.execute(&row, []));
        done.unwrap();
    }
    drop(dead);
    gone.end();
    let _without = begin("w");
    assert_eq!(
        found(&store, "sessions").await.text,
        "1 alive, 1 dead, 1 unknown; 1 file of a session that has no row"
    );
}

#[test]
fn sizes_are_told_in_units_people_read() {
    assert_eq!(in_units(0), "0 KiB");
    assert_eq!(in_units(1), "1 KiB");
    assert_eq!(in_units(10 * 1024 * 1024), "10 MiB");
}
