//! Behind a real pgbouncer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Class, Mode, Store};
use tenure_testkit::postgres::{Bouncer, Cluster, Mode as Pooling};

use crate::scene::{Asks, WAIT_MAX, open, request, take, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_shares_sessions_is_refused_with_the_reason() {
    let database = Cluster::shared().database();
    for mode in [Pooling::Transaction, Pooling::Statement] {
        let bouncer = Bouncer::start(&database, mode);
        let error = open(bouncer.url()).await.err().expect("it was not refused");
        assert_eq!(error.class(), Class::Configuration, "{mode:?}: {error:?}");
        assert!(error.to_string().contains("pooler"), "{mode:?}: {error}");
        assert!(error.remedy().to_string().contains("pool_mode = session"));
    }
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'tenure'";
    assert_eq!(
        database.psql(tables),
        "0",
        "nothing is made before the proof"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_session_mode_works_and_wakes_who_waits() {
    let database = Cluster::shared().database();
    let bouncer = Bouncer::start(&database, Pooling::Session);
    let first = open(bouncer.url()).await.unwrap();
    let second = Arc::new(open(bouncer.url()).await.unwrap());
    let mut waits = Vec::new();
    for _ in 0..5 {
        let held = take(&first, "a").await;
        let waiting = {
            let second = Arc::clone(&second);
            tokio::spawn(async move {
                let lease = second.wait_for(&request("a", Mode::Write, WAIT_MAX)).await;
                (lease.unwrap(), Instant::now())
            })
        };
        until("it waits", || {
            database.psql("SELECT count(*) FROM tenure.waiters") == "1"
        })
        .await;
        let released = Instant::now();
        first.release(&held.lease).await.unwrap();
        let (lease, granted) = waiting.await.unwrap();
        waits.push(granted - released);
        assert!(lease.token > held.token);
        second.release(&lease.lease).await.unwrap();
    }
    // The wake-up did it, as a rule: no waiter looks by a timer before three quarters of a second
    // have passed.
    waits.sort_unstable();
    assert!(waits[2] < Duration::from_millis(400), "{waits:?}");
}
