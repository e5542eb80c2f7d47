//! The lease store on PostgreSQL.

use tenure_testkit::{Fixture, Fresh, conformance};

use crate::queried_database::QueriedDatabase;

struct Postgres;

impl Fixture for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    /// Makes a database of its own on the server of this process. Leases are short, so that locks
    /// of dead holders are soon free, and long enough that a stopped holder keeps its lock for as
    /// long as the cases look at it.
    fn fresh(&self) -> Fresh {
        let database = QueriedDatabase::new();
        Fresh {
            url: format!("{}?lease_ttl=4s", database.url()),
            keep: Box::new(database),
        }
    }

    fn at_once(&self) -> usize {
        2
    }

    fn histories(&self) -> u32 {
        300
    }

    /// Tells whether a transaction idles and so keeps the row of a resource. The caller looks again
    /// at a transaction that is merely under way.
    fn is_held_up(&self, fresh: &Fresh) -> bool {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND state LIKE 'idle in transaction%'";
        database(fresh).psql(open) != "0"
    }

    /// Makes the leases of their guards expire long ago, and their last sign of life as old.
    fn outlive(&self, fresh: &Fresh, pids: &[u32]) {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let pids = pids.join(", ");
        database(fresh).psql(&format!(
            "UPDATE tenure.processes SET seen_at = seen_at - interval '1 minute' WHERE pid IN ({pids});
             UPDATE tenure.dal_locks SET heartbeat_ts = heartbeat_ts - interval '1 minute',
                 lease_expires = lease_expires - interval '1 minute', until = until - interval '1 minute'
                 WHERE pid IN ({pids}) AND ttl_ms <= 4000"
        ));
    }
}

fn database(fresh: &Fresh) -> &QueriedDatabase {
    let database = fresh.keep.downcast_ref::<QueriedDatabase>();
    database.expect("a fresh store keeps its database")
}

conformance!(Postgres);
