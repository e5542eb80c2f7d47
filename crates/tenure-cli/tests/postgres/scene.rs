//! A database for one test, and commands that use it.

use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_testkit::postgres::{Cluster, Database, Proxy};

use crate::world::{World, holds_within};

/// The time of a lease without renewal: short enough to wait for, long enough for a busy machine.
pub const TTL: Duration = Duration::from_secs(3);

/// Part of every address. The server trusts every client; none of our output may show it.
pub const PASSWORD: &str = "s3cret-Word";

/// An empty database on the shared server.
pub struct Scene {
    pub world: World,
    pub database: Database,
}

impl Scene {
    pub fn new() -> Self {
        Self::on(Cluster::shared())
    }

    pub fn on(cluster: &Cluster) -> Self {
        let database = cluster.database();
        let world = World::at(&address(&database.url()));
        Self { world, database }
    }

    /// Returns a world that reaches the database through a proxy, which can cut it off.
    pub fn behind_proxy(&self) -> (Proxy, World) {
        let proxy = Proxy::before(&self.database);
        let world = World::at(&address(&proxy.url_through(&self.database)));
        (proxy, world)
    }

    /// Writes an order of kinds into the database.
    pub fn write_order(&self, order: &str) {
        let sql = format!("insert into tenure.settings values ('order', '{order}')");
        self.database.psql(&sql);
    }

    /// Ends every connection of Tenure at the server, and returns their number.
    pub fn terminate(&self) -> usize {
        let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                   where datname = current_database() and application_name like 'tenure%'";
        self.database.psql(sql).parse().unwrap()
    }
}

/// Returns the address with a password, and with leases of [`TTL`].
pub fn address(url: &str) -> String {
    let url = url.replacen(
        "postgres://postgres@",
        &format!("postgres://postgres:{PASSWORD}@"),
        1,
    );
    let ttl = TTL.as_secs();
    format!("{url}?lease_ttl={ttl}s")
}

/// Returns the one lease of a resource, which must be held.
#[track_caller]
pub fn lease_of(world: &World, resource: &str) -> Value {
    let held = world.json(["ls", resource]);
    let held = held["held"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{held:?}");
    held[0].clone()
}

/// Waits for so long, and fails unless the claim holds all the time.
#[track_caller]
pub fn stays(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    let broken = holds_within(time, || !holds());
    assert!(!broken, "not after {:?}: {what}", began.elapsed());
}
