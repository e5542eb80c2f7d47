//! Behind a real pgbouncer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tenure_core::Class;
use tenure_postgres::advisory::{AdvisoryLocks, GuardState, Settings};
use tenure_testkit::postgres::{Bouncer, Cluster, Mode};

use crate::scene::{AGENT, SHORT, WAIT_MAX, until};

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
            assert!(error.remedy().to_string().contains("pool_mode = session"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_session_mode_works() {
    let database = Cluster::shared().database();
    let bouncer = Bouncer::start(&database, Mode::Session);
    let locks = AdvisoryLocks::open(bouncer.url(), Settings::default()).await;
    let locks = locks.unwrap();
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let taken = || database.psql("SELECT pg_try_advisory_lock(1, 1)");
    assert_eq!(taken().trim(), "f");
    assert!(locks.lock(AGENT, 1, SHORT).await.is_err());
    assert_eq!(guard.state(), GuardState::Held);
    guard.release().await.unwrap();
    assert_eq!(taken().trim(), "t");
    let locker = locks.clone();
    let held = tokio::spawn(async move {
        let _guard = locker.lock(AGENT, 1, WAIT_MAX).await.unwrap();
        std::future::pending::<()>().await;
    });
    until("it is held", || taken().trim() == "f").await;
    held.abort();
    until("it is free", || taken().trim() == "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_does_not_clean_sessions_is_refused_with_the_reason() {
    let database = Cluster::shared().database();
    let bouncer = Bouncer::without_reset(&database);
    let opened = AdvisoryLocks::open(bouncer.url(), Settings::default()).await;
    let error = opened.err().expect("it was not refused");
    assert_eq!(error.class(), Class::Configuration, "{error:?}");
    assert!(error.to_string().contains("does not clean"), "{error}");
    assert!(
        error.remedy().to_string().contains("server_reset_query"),
        "{error:?}"
    );
}

/// A proxy that keeps sessions apart but passes no notifications on is found by the NOTIFY alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_way_that_swallows_notifications_is_refused_with_the_reason() {
    let database = Cluster::shared().database();
    let way = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, port) = (database.port(), way.local_addr().unwrap().port());
    thread::spawn(move || {
        for client in way.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (mut asks, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut asks, &mut asked));
            thread::spawn(move || pass_on_all_but_notifications(server, client));
        }
    });
    let url = format!(
        "postgres://postgres@127.0.0.1:{port}/{}?sslmode=disable",
        database.name()
    );
    let opened = AdvisoryLocks::open(&url, Settings::default()).await;
    let error = opened.err().expect("it was not refused");
    assert_eq!(error.class(), Class::Configuration, "{error:?}");
    assert!(
        error.to_string().contains("a notification did not arrive"),
        "{error}"
    );
}

/// Passes on all messages of the server but notifications. A message is a letter, its length
/// including the length field, and the rest.
fn pass_on_all_but_notifications(
    mut server: TcpStream,
    mut client: TcpStream,
) -> std::io::Result<()> {
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut rest = vec![0; length - 4];
        server.read_exact(&mut rest)?;
        if head[0] != b'A' {
            client.write_all(&head)?;
            client.write_all(&rest)?;
        }
    }
}
