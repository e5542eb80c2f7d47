//! Behind a real pgbouncer.

use tenure_core::Class;
use tenure_postgres::{AdvisoryLocks, GuardState, Settings};
use tenure_testkit::postgres::{Bouncer, Cluster, Mode};

use crate::scene::{AGENT, PATIENCE, SHORT, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_shares_sessions_is_refused_with_the_reason() {
    let database = Cluster::shared().database();
    for mode in [Mode::Transaction, Mode::Statement] {
        for sessions_max in [1, 20] {
            let bouncer = Bouncer::with_sessions(&database, mode, sessions_max);
            let opened = AdvisoryLocks::open(bouncer.url(), Settings::default()).await;
            let error = opened.err().expect("it was not refused");
            assert_eq!(error.class(), Class::Configuration, "{mode:?}: {error:?}");
            assert!(error.to_string().contains("pooler"), "{mode:?}: {error}");
            assert!(error.remedy().contains("pool_mode = session"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_session_mode_works() {
    let database = Cluster::shared().database();
    let bouncer = Bouncer::start(&database, Mode::Session);
    let locks = AdvisoryLocks::open(bouncer.url(), Settings::default()).await;
    let locks = locks.unwrap();
    let guard = locks.lock(AGENT, 1, PATIENCE).await.unwrap();
    let taken = || database.psql("SELECT pg_try_advisory_lock(1, 1)");
    assert_eq!(taken().trim(), "f");
    assert!(locks.lock(AGENT, 1, SHORT).await.is_err());
    assert_eq!(guard.state(), GuardState::Held);
    guard.release().await.unwrap();
    assert_eq!(taken().trim(), "t");
    let locker = locks.clone();
    let held = tokio::spawn(async move {
        let _guard = locker.lock(AGENT, 1, PATIENCE).await.unwrap();
        std::future::pending::<()>().await;
    });
    until("it is held", || taken().trim() == "f").await;
    held.abort();
    until("it is free", || taken().trim() == "t").await;
}
