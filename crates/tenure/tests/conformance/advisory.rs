//! Advisory locks on PostgreSQL, as a store.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tenure::{Keeper, Resource};
use tenure_postgres::{AdvisoryStore, Key};
use tenure_testkit::{Fixture, Fresh, conformance};

use crate::lookout::Lookout;

struct Advisory;

impl Fixture for Advisory {
    fn name(&self) -> &'static str {
        "advisory"
    }

    fn fresh(&self) -> Fresh {
        let database = Lookout::new();
        Fresh {
            url: format!("advisory:{}", database.url()),
            keep: Box::new(database),
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn at_once(&self) -> usize {
        2
    }

    fn histories(&self) -> u32 {
        100
    }

    /// The server looks every second whether who waits for a lock is still there. The connections of a process have its number.
    fn outlive(&self, fresh: &Fresh, pids: &[u32]) {
        let database = fresh.keep.downcast_ref::<Lookout>();
        let database = database.expect("a fresh store keeps its database");
        let names: Vec<String> = pids
            .iter()
            .map(|pid| format!("application_name ~ '^tenure advisory, process {pid}(,|$)'"))
            .collect();
        let left = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND ({})",
            names.join(" OR ")
        );
        let end = Instant::now() + Duration::from_secs(20);
        while database.psql(&left) != "0" {
            assert!(
                Instant::now() < end,
                "the server keeps sessions of the dead"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whoever waits at the server, for either key of the resource.
    fn waiters(&self, keeper: &Keeper, resource: &Resource) -> usize {
        static ANYWHERE: OnceLock<Lookout> = OnceLock::new();
        let lookout = ANYWHERE.get_or_init(Lookout::new);
        let url = keeper.store().url();
        let (_, name) = url
            .rsplit_once('/')
            .expect("the database is in the address");
        let keys = AdvisoryStore::keys_of(resource).map(|key| match key {
            Key::Name64(number) => number.to_string(),
            Key::Pair(..) => panic!("the keys of resources are single numbers"),
        });
        let waiting = lookout.psql(&format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objsubid = 1
             AND (classid::bigint << 32 | objid::bigint) IN ({})
             AND database = (SELECT oid FROM pg_database WHERE datname = '{name}')",
            keys.join(", ")
        ));
        waiting.trim().parse().expect("a count")
    }
}

conformance!(Advisory);
