//! A database and a psql that stays connected to it: whoever looks again and again would spend most of the time on starting new ones.

use std::sync::{Mutex, OnceLock};

use tenure_testkit::postgres::{Cluster, Database, Psql};

pub struct Lookout {
    // Before the database, so that it ends before that is dropped.
    psql: OnceLock<Mutex<Psql>>,
    database: Database,
}

impl Lookout {
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

    /// What statements print; panics if one fails.
    pub fn psql(&self, sql: &str) -> String {
        let open = || Mutex::new(self.database.session());
        self.psql
            .get_or_init(open)
            .lock()
            .expect("nobody failed while asking")
            .run(sql)
    }
}
