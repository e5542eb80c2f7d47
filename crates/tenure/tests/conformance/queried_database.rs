//! A database and a psql that stays connected to it: a new psql for each query would take most of
//! the time.

use std::sync::{Mutex, OnceLock};

use tenure_testkit::postgres::{Cluster, Database, Psql};

pub struct QueriedDatabase {
    // Declared before the database, so that psql ends before the database is dropped.
    psql: OnceLock<Mutex<Psql>>,
    database: Database,
}

impl QueriedDatabase {
    /// Makes a database on the server of this process. Its psql starts with the first query.
    pub fn new() -> Self {
        Self {
            psql: OnceLock::new(),
            database: Cluster::shared().database(),
        }
    }

    /// Returns the address of the database.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Runs statements and returns what they print. Panics if one fails.
    pub fn psql(&self, sql: &str) -> String {
        let open = || Mutex::new(self.database.session());
        self.psql
            .get_or_init(open)
            .lock()
            .expect("nobody failed while asking")
            .run(sql)
    }
}
