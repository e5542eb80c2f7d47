//! Servers that are full, strict, or not ours.

use std::time::Instant;

use tenure_core::{Class, Error};
use tenure_postgres::advisory::{AdvisoryLocks, Settings};
use tenure_testkit::postgres::{self, Cluster};

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, timed, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_of_the_administrator_does_not_end_a_wait() {
    let database = Cluster::shared().database();
    let name = database.name();
    database.psql(&format!(
        "ALTER DATABASE {name} SET statement_timeout = '100ms';
         ALTER DATABASE {name} SET lock_timeout = '50ms';
         ALTER DATABASE {name} SET idle_session_timeout = '200ms'"
    ));
    let locks = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    let locks = locks.unwrap();
    let holder = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let (error, waited) = timed(locks.lock(AGENT, 1, SHORT * 2)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert!(waited >= SHORT * 2, "{waited:?}");
    holder.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_rights_is_told_which_it_needs() {
    let scene = Scene::new().await;
    let database = Cluster::shared().database();
    let role = format!("nobody_{}", database.name());
    database.psql(&format!("CREATE ROLE {role} LOGIN"));
    let of_role = |url: String| url.replacen("postgres@", &format!("{role}@"), 1);
    for url in [of_role(database.url()), of_role(scene.database.url())] {
        assert!(url.contains(&role), "{url}");
        let opened = AdvisoryLocks::open(&url, Settings::default()).await;
        let error = match opened {
            Err(error) => error,
            Ok(locks) => locks.lock(AGENT, 1, SHORT).await.unwrap_err(),
        };
        assert_eq!(error.class(), Class::Configuration, "{error:?}");
        assert!(error.remedy().to_string().contains("GRANT"), "{error:?}");
    }
    scene.database.psql(&format!(
        "GRANT USAGE ON SCHEMA tenure TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure TO {role};
         GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA tenure TO {role}"
    ));
    let url = of_role(scene.database.url());
    let locks = AdvisoryLocks::open(&url, Settings::default())
        .await
        .unwrap();
    locks
        .lock(AGENT, 1, SHORT)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    drop(locks);
    scene
        .database
        .psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_waited_for_until_the_deadline() {
    let settings = postgres::Settings::default()
        .parameter("max_connections", 12)
        .parameter("superuser_reserved_connections", 0);
    let cluster = Cluster::with(&settings);
    let database = cluster.database();
    let locks = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    let locks = locks.unwrap();
    let first = locks.lock(AGENT, 0, WAIT_MAX).await.unwrap();
    let mut others = Vec::new();
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        match locks.lock(AGENT, 1 + others.len() as i32, SHORT).await {
            Ok(guard) => others.push(guard),
            Err(error) if error.to_string().contains("too many clients") => break,
            // A busy machine may need longer than `SHORT` for a connection.
            Err(_) => assert!(Instant::now() < deadline, "the server is never full"),
        }
    }
    let (error, waited) = timed(locks.lock(AGENT, 99, SHORT * 3)).await;
    let error = error.unwrap_err();
    assert_eq!(error.class(), Class::Unreachable, "{error:?}");
    assert!(error.to_string().contains("too many clients"), "{error}");
    assert!(waited >= SHORT, "{waited:?}");
    let waiting = {
        let locks = AdvisoryLocks::clone(&locks);
        tokio::spawn(async move { locks.lock(AGENT, 99, WAIT_MAX).await })
    };
    let refused = cluster.log().matches("too many clients").count();
    until("it is refused, and asks again", || {
        cluster.log().matches("too many clients").count() > refused + 1
    })
    .await;
    assert!(!waiting.is_finished());
    drop(first);
    drop(others);
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_said_to_be_unreachable() {
    let (error, took) = timed(AdvisoryLocks::open(
        "postgres://ann:s3cret@127.0.0.1:1/x",
        Settings::default(),
    ))
    .await;
    let error = error.err().unwrap();
    assert_eq!(error.class(), Class::Unreachable);
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert!(took < WAIT_MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_exist_is_a_mistake_in_the_configuration() {
    let database = Cluster::shared().database();
    let url = database.url().replace(database.name(), "no_such_database");
    let error = AdvisoryLocks::open(&url, Settings::default()).await;
    assert_eq!(error.err().unwrap().class(), Class::Configuration);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_frees_the_lock() {
    let scene = Scene::new().await;
    let mut psql = scene.database.session();
    psql.run("SELECT pg_advisory_lock(1, 1)");
    let locks = scene.locks.clone();
    let waiting = tokio::spawn(async move { locks.lock(AGENT, 1, WAIT_MAX).await });
    until("it waits", || scene.entries(false) == 1).await;
    drop(psql);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
