//! A database and a psql that stays connected to it. A new psql for each query would take most of
//! the time.

use std::sync::{Mutex, OnceLock};

use tenure_testkit::postgres::{Cluster, Database, Psql};

pub struct QueriedDatabase {
    // Before the database, so that it ends before that is dropped.
    psql: OnceLock<Mutex<Psql>>,
    database: Database,
}

impl QueriedDatabase {
    /// A new database on the server of this process. Its psql is started when it is first asked.
    pub fn new() -> Self {
        Self {
            psql: OnceLock::new(),
            database: Cluster::shared().database(),
        }
    }

    /// Its address.
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
