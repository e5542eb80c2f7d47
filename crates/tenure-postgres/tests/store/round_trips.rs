//! Round trips to the server, counted by a proxy.

use std::sync::Arc;

use tenure_core::{Mode, Store};
use tenure_testkit::postgres::Proxy;

use crate::scene::{Asks, SHORT, Scene, WAIT_MAX, open, request, take, until};

/// A process that has waited before has a connection that listens, and its statements prepared.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_has_its_place_in_line_after_four_round_trips() {
    let scene = Scene::new().await;
    let proxy = Proxy::before(&scene.database);
    let store = Arc::new(open(&proxy.url_through(&scene.database)).await.unwrap());
    let held = take(&scene.store, "x").await;
    let in_vain = request("x", Mode::Write, SHORT);
    assert!(store.acquire(&in_vain).await.unwrap().is_none());
    until("nobody waits", || scene.waiting() == 0).await;
    scene.store.release(&held.lease).await.unwrap();
    let mut fewest = usize::MAX;
    // The process also reports now and then that it is alive, and a busy machine has the time for
    // that in some rounds.
    for _ in 0..5 {
        let held = take(&scene.store, "x").await;
        let before = proxy.answered().round_trips();
        let asking = {
            let store = Arc::clone(&store);
            let asked = request("x", Mode::Write, WAIT_MAX);
            tokio::spawn(async move { store.wait_for(&asked).await })
        };
        until("it is in line", || scene.waiting() == 1).await;
        let made = proxy.answered().round_trips() - before;
        assert!(made > 0, "the proxy has counted nothing");
        fewest = fewest.min(made);
        scene.store.release(&held.lease).await.unwrap();
        let lease = asking.await.unwrap().unwrap();
        store.release(&lease.lease).await.unwrap();
    }
    assert!(fewest <= 4, "{fewest} round trips");
}
