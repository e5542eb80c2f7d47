//! Another session answers: every lock that was held in the session asked is lost.
//!
//! No pooler that passes the proof at the start does this, so a proxy plays it: from one moment on
//! it changes the number of the session in every answer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tenure_core::Class;
use tenure_postgres::advisory::{AdvisoryLocks, GuardState, Settings};
use tenure_testkit::postgres::{Cluster, Database};

use crate::scene::{AGENT, WAIT_MAX, until};

/// A service behind such a proxy.
struct Swapped {
    locks: AdvisoryLocks,
    database: Database,
    swap: Arc<AtomicBool>,
}

impl Swapped {
    async fn new() -> Swapped {
        let database = Cluster::shared().database();
        let way = TcpListener::bind("127.0.0.1:0").unwrap();
        let (server, port) = (database.port(), way.local_addr().unwrap().port());
        let swap = Arc::new(AtomicBool::new(false));
        let swaps = Arc::clone(&swap);
        thread::spawn(move || {
            for client in way.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let (mut asks, mut asked) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                let swaps = Arc::clone(&swaps);
                thread::spawn(move || {
                    let _ = std::io::copy(&mut asks, &mut asked);
                    asked.shutdown(std::net::Shutdown::Both)
                });
                thread::spawn(move || {
                    let _ = pass_on(&server, &client, &swaps);
                    client.shutdown(std::net::Shutdown::Both)
                });
            }
        });
        let url = format!(
            "postgres://postgres@127.0.0.1:{port}/{}?sslmode=disable",
            database.name()
        );
        let locks = AdvisoryLocks::open(&url, Settings::default()).await;
        let locks = locks.unwrap();
        Swapped {
            locks,
            database,
            swap,
        }
    }

    fn swap(&self) {
        self.swap.store(true, Ordering::SeqCst);
    }

    /// Asserts that the lock is free, and that no connection in doubt was kept.
    async fn assert_clean(&self) {
        let free = || self.database.psql("SELECT pg_try_advisory_lock(1, 1)") == "t";
        until("the lock is free", free).await;
        let state = || self.locks.pool_state();
        until("no connection is in use", || state().free == 25).await;
        assert_eq!(state().kept, 0, "the connection was pooled");
    }
}

/// Passes on the messages of the server, with another number of the session once `swap` is set. A
/// message is a letter, its length including the length field, and the rest; `K` tells the number
/// of the session, `D` is a row.
fn pass_on(
    mut server: &TcpStream,
    mut client: &TcpStream,
    swap: &AtomicBool,
) -> std::io::Result<()> {
    let mut session = None;
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut rest = vec![0; length - 4];
        server.read_exact(&mut rest)?;
        if head[0] == b'K' {
            session = rest.first_chunk::<4>().copied();
        }
        if let Some(session) = session.filter(|_| head[0] == b'D' && swap.load(Ordering::SeqCst)) {
            let another = (u32::from_be_bytes(session) + 1).to_be_bytes();
            let at = rest.windows(4).rposition(|bytes| bytes == session);
            if let Some(at) = at {
                rest[at..at + 4].copy_from_slice(&another);
            }
        }
        client.write_all(&head)?;
        client.write_all(&rest)?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_when_another_session_answers_a_probe() {
    let scene = Swapped::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    scene.swap();
    let lost = guard.lost().await;
    assert_eq!(lost.class(), Class::Lost);
    assert!(lost.to_string().contains("became"), "{lost}");
    assert_eq!(guard.state(), GuardState::Lost);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.class(), Class::Lost, "{error}");
    scene.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_another_session_answers_is_none() {
    let scene = Swapped::new().await;
    scene.swap();
    let error = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap_err();
    assert!(error.to_string().contains("shares sessions"), "{error}");
    scene.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_another_session_answers_says_that_it_was_lost() {
    let scene = Swapped::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    scene.swap();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.class(), Class::Lost, "{error}");
    assert!(error.to_string().contains("became"), "{error}");
    scene.assert_clean().await;
}
