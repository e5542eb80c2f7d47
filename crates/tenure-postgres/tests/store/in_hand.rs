//! Renewals by another process: of a lease in the hand of a guard, and of a lease without one.

use std::time::Duration;

use tenure_core::Store;

use crate::scene::{Asks, Scene, open, request, take};

const SECOND: Duration = Duration::from_secs(1);

fn ttl_of(scene: &Scene) -> String {
    scene.database.psql("SELECT ttl_ms FROM tenure.dal_locks")
}

#[tokio::test]
async fn a_renewal_by_another_never_shortens_what_a_guard_has_in_hand() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    let held = take(&scene.store, "a").await;
    let leases = other.leases().unwrap();
    assert!(leases.has_guard(&held.lease).await.unwrap());
    let renewed = leases.extend(&held.lease, Some(SECOND)).await.unwrap();
    assert!(renewed.expires_at >= held.expires_at, "{renewed:?}");
    assert_eq!(ttl_of(&scene), "30000");
    let lasts = scene.store.renew(&held.lease).await.unwrap().unwrap();
    assert!(lasts > 25 * SECOND, "{lasts:?}");
    // A longer time does no harm, and stays.
    leases.extend(&held.lease, Some(60 * SECOND)).await.unwrap();
    leases.extend(&held.lease, None).await.unwrap();
    assert_eq!(ttl_of(&scene), "60000");
}

#[tokio::test]
async fn a_lease_of_its_own_is_in_nobodys_hand_and_gets_what_is_asked_for() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    let asked = request("a", tenure_core::Mode::Write, SECOND);
    let held = scene.store.wait_for(&asked).await.unwrap();
    let ids = [held.lease.clone()];
    let bound = scene.leases().bind(&ids, 60 * SECOND, None).await.unwrap();
    let leases = other.leases().unwrap();
    assert!(!leases.has_guard(&held.lease).await.unwrap());
    let renewed = leases.extend(&held.lease, Some(SECOND)).await.unwrap();
    assert!(renewed.expires_at < bound[0].expires_at, "{renewed:?}");
    assert_eq!(ttl_of(&scene), "1000");
}
