//! The SQLite store.

use tenure_testkit::{Fixture, Fresh, conformance};

struct Sqlite;

impl Fixture for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    /// In memory where there is such a place: a new database is synced several times, and the
    /// histories make thousands. What is durable is tested on disk, by the tests of the command.
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
