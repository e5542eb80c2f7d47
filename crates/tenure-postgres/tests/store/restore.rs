//! Yesterday's backup is restored: later grants are forgotten, but no token is given twice.

use std::time::Duration;

use tenure_core::{Class, Mode, Store, Token};
use tenure_testkit::postgres::Cluster;

use crate::scene::{Asks, Scene, WAIT_MAX, open, request, resource, take};

#[tokio::test(flavor = "multi_thread")]
async fn tokens_do_not_go_back_when_a_backup_is_restored() {
    let scene = Scene::with("?lease_ttl=1s").await;
    let yesterday = take(&scene.store, "a").await;
    let backup = scene.database.dump();
    scene.store.release(&yesterday.lease).await.unwrap();
    let mut last = yesterday.token;
    for _ in 0..20 {
        let lease = take(&scene.store, "a").await;
        assert!(lease.token > last);
        last = lease.token;
        scene.store.release(&lease.lease).await.unwrap();
    }
    let held = take(&scene.store, "b").await;
    scene.database.psql("DROP SCHEMA tenure CASCADE");
    scene.database.psql(&backup);
    // A lease of yesterday is held again until its time is over; a lease taken since then is gone.
    let known = scene.store.token(&resource("a")).await.unwrap();
    assert_eq!(
        known,
        Some(yesterday.token),
        "the backup knows nothing of today"
    );
    let over = scene.store.renew(&held.lease).await.unwrap_err();
    assert_eq!(over.class(), Class::NotAllowed, "{over:?}");
    // A store that was open all the time and a store that is opened now both go on above all tokens
    // there were.
    let other = open(&scene.database.url()).await.unwrap();
    for store in [&scene.store, &other] {
        let lease = take(store, "a").await;
        assert!(lease.token > last, "{} after {last}", lease.token);
        last = lease.token;
        store.release(&lease.lease).await.unwrap();
    }
    assert!(take(&other, "b").await.token > held.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_another_database_goes_on_above_the_first() {
    let scene = Scene::with("?lease_ttl=1s").await;
    let lease = take(&scene.store, "a").await;
    scene.store.release(&lease.lease).await.unwrap();
    let backup = scene.database.dump();
    let last = take(&scene.store, "a").await.token;
    let other = Cluster::shared().database();
    other.psql(&backup);
    let store = open(&other.url()).await.unwrap();
    assert!(take(&store, "a").await.token > last);
}

/// A clock that was ahead when tokens were drawn does not make them go back: the last token counts
/// as well.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_go_on_above_one_that_is_ahead_of_the_clock() {
    let scene = Scene::new().await;
    let lease = take(&scene.store, "a").await;
    scene.store.release(&lease.lease).await.unwrap();
    let hour = u64::try_from(Duration::from_secs(3600).as_micros()).unwrap();
    let ahead = Token::new(lease.token.get() + hour).unwrap();
    scene
        .database
        .psql(&format!("UPDATE tenure.resources SET token = {ahead}"));
    let next = take(&scene.store, "a").await;
    assert_eq!(next.token.get(), ahead.get() + 1);
    // The step that serves a waiter draws tokens by this rule, too.
    let waiting = request("a", Mode::Write, WAIT_MAX);
    let (granted, released) = tokio::join!(scene.store.wait_for(&waiting), async {
        while scene.waiting() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.store.release(&next.lease).await
    });
    released.unwrap();
    assert_eq!(granted.unwrap().token.get(), ahead.get() + 2);
}
