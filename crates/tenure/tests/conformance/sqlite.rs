//! The SQLite store.

use tenure_testkit::{Fixture, Fresh, conformance};

struct Sqlite;

impl Fixture for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    /// The database is in memory where there is such a place: a new one is synced several times,
    /// and the histories make thousands. The tests of the command test durability on disk.
    fn fresh(&self) -> Fresh {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("there is room for a directory");
        Fresh {
            url: format!("sqlite:{}/tenure.db", directory.path().display()),
            keep: Box::new(directory),
        }
    }
}

conformance!(Sqlite);
