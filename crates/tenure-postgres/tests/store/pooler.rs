//! Behind a real pgbouncer.

use tenure_core::{Class, Mode, Store};
use tenure_testkit::postgres::{Bouncer, Cluster, Mode as Pooling};

use crate::scene::{PATIENCE, open, request, take, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_shares_sessions_is_refused_with_the_reason() {
    let database = Cluster::shared().database();
    for mode in [Pooling::Transaction, Pooling::Statement] {
        let bouncer = Bouncer::start(&database, mode);
        let error = open(bouncer.url()).await.err().expect("it was not refused");
        assert_eq!(error.class(), Class::Configuration, "{mode:?}: {error:?}");
        assert!(error.to_string().contains("pooler"), "{mode:?}: {error}");
        assert!(error.remedy().contains("pool_mode = session"));
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
    let (first, second) = (
        open(bouncer.url()).await.unwrap(),
        open(bouncer.url()).await.unwrap(),
    );
    let held = take(&first, "a").await;
    let waiting = tokio::spawn(async move {
        let lease = second.acquire(&request("a", Mode::Write, PATIENCE)).await;
        (second, lease)
    });
    until("it waits", || {
        database.psql("SELECT count(*) FROM tenure.waiters") == "1"
    })
    .await;
    first.release(&held.lease).await.unwrap();
    let (second, lease) = waiting.await.unwrap();
    let lease = lease.unwrap();
    assert!(lease.token > held.token);
    second.release(&lease.lease).await.unwrap();
}
