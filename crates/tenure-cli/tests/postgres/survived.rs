//! The server ends connections or stops, and the lease does not run out meanwhile.

use tenure_testkit::postgres::{Cluster, Settings, Stop};

use crate::holder::Holder;
use crate::process::Process;
use crate::scene::{Scene, TTL, lease_of, stays};
use crate::world::is_alive;

#[test]
fn a_holder_and_a_waiter_survive_the_end_of_all_their_connections() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    let next = Process::in_line(world, "x", "next");
    let lease = lease_of(world, "x")["lease"].clone();
    for _ in 0..4 {
        assert!(
            scene.terminate() >= 2,
            "a holder and a waiter are connected"
        );
        stays("it goes on", TTL / 2, || is_alive(holder.command));
    }
    assert_eq!(lease_of(world, "x")["lease"], lease);
    holder.let_go();
    assert_eq!(holder.code(), 0);
    next.token();
}

#[test]
fn a_holder_and_a_waiter_survive_a_restart_of_the_server() {
    for how in [Stop::Fast, Stop::Crash] {
        let mut cluster = Cluster::with(&Settings::default());
        let scene = Scene::on(&cluster);
        // A start of the server takes a while, so these leases last as long as by default.
        let url = scene.world.store().replace("lease_ttl=3s", "lease_ttl=30s");
        let world = crate::world::World::at(&url);
        let mut holder = Holder::start(&world, ["x"]);
        let next = Process::in_line(&world, "x", "next");
        let lease = lease_of(&world, "x")["lease"].clone();
        cluster.restart(how);
        stays("it goes on", TTL, || is_alive(holder.command));
        assert_eq!(lease_of(&world, "x")["lease"], lease, "{how:?}");
        holder.let_go();
        assert_eq!(holder.code(), 0, "{how:?}");
        next.token();
        drop(scene);
    }
}
