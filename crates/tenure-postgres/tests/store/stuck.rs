//! A step that is held up or cut off half-way does not keep other processes from renewing, waiting
//! and being served.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::{Mode, Store};
use tenure_testkit::postgres::{Database, Proxy};
use tokio::time::timeout;

use crate::scene::{Asks, Scene, WAIT_MAX, open, request, resource, take, until};

/// The watch of a guard with 30 s waits this long for an answer.
const CHECK: Duration = Duration::from_secs(5);

const WAITS_FOR_ROW: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE wait_event_type = 'Lock' AND datname = current_database()";

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_cut_off_with_steps_in_line_for_a_row_holds_others_up_once() {
    let scene = Scene::new().await;
    let proxy = Proxy::before(&scene.database);
    let cut_off = Arc::new(open(&proxy.url_through(&scene.database)).await.unwrap());
    let asked = || request("a", Mode::Read, WAIT_MAX);
    let live = scene.store.wait_for(&asked()).await.unwrap();
    let mut leases = Vec::new();
    for _ in 0..8 {
        leases.push(cut_off.wait_for(&asked()).await.unwrap());
    }
    let mut barrier = scene.database.session();
    barrier.run("BEGIN");
    barrier.run("SELECT 1 FROM tenure.resources FOR UPDATE");
    for lease in leases {
        let store = Arc::clone(&cut_off);
        tokio::spawn(async move { store.leases().unwrap().extend(&lease.lease, None).await });
    }
    until("all of them wait for the row", || {
        scene.database.psql(WAITS_FOR_ROW) == "8"
    })
    .await;
    proxy.pause();
    barrier.run("COMMIT");
    // Otherwise each of the eight would have the row for five seconds, one after the other.
    let began = Instant::now();
    while !matches!(
        timeout(CHECK, scene.leases().extend(&live.lease, None)).await,
        Ok(Ok(_))
    ) {
        assert!(began.elapsed() < WAIT_MAX, "{:?}", began.elapsed());
    }
    assert!(began.elapsed() < WAIT_MAX, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_stuck_does_not_keep_other_leases_from_being_renewed() {
    let scene = Scene::new().await;
    let store = Arc::new(open(&scene.database.url()).await.unwrap());
    let _held = take(&scene.store, "a").await;
    let other = take(&store, "b").await;
    let mut barrier = scene.database.session();
    barrier.run("BEGIN");
    barrier.run("SELECT 1 FROM tenure.resources WHERE resource = 'name:a' FOR UPDATE");
    let asking: Vec<_> = (0..40)
        .map(|_| {
            let store = Arc::clone(&store);
            let asked = request("a", Mode::Write, WAIT_MAX * 4);
            tokio::spawn(async move { store.wait_for(&asked).await })
        })
        .collect();
    until("as many wait for the row as may", || {
        scene.database.psql(WAITS_FOR_ROW).parse::<u32>().unwrap() >= 6
    })
    .await;
    for _ in 0..5 {
        let renewed = timeout(CHECK, store.leases().unwrap().extend(&other.lease, None)).await;
        renewed.expect("renewed in time").unwrap();
    }
    barrier.run("COMMIT");
    asking.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_goes_silent_while_it_is_set_up_does_not_make_waiters_deaf() {
    let scene = Scene::new().await;
    let hole = Hole::before(
        scene.database.port(),
        b"SET idle_in_transaction_session_timeout",
    );
    let ours = format!(":{}/", scene.database.port());
    let url = scene.database.tcp_url();
    let url = url.replace(&ours, &format!(":{}/", hole.port));
    let store = Arc::new(open(&url).await.unwrap());
    let wait = || {
        let (store, asked) = (Arc::clone(&store), request("a", Mode::Write, WAIT_MAX));
        tokio::spawn(async move { store.wait_for(&asked).await })
    };
    let held = take(&scene.store, "a").await;
    let first = wait();
    until("it waits", || scene.waiting() == 1).await;
    hole.armed.store(true, Ordering::SeqCst);
    scene.database.psql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
         AND client_addr IS NOT NULL AND application_name LIKE 'tenure%'",
    );
    until("one is swallowed", || !hole.armed.load(Ordering::SeqCst)).await;
    // All connections work from here on, except that one.
    scene.store.release(&held.lease).await.unwrap();
    let lease = first.await.unwrap().unwrap();
    store.release(&lease.lease).await.unwrap();
    let held = take(&scene.store, "a").await;
    let second = wait();
    until("the second waits", || {
        assert!(!second.is_finished());
        scene.waiting() == 1
    })
    .await;
    scene.store.release(&held.lease).await.unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_before_its_commit_leaves_no_connection_inside_a_transaction() {
    let scene = Scene::new().await;
    let asked = request("a", Mode::Upgradeable, WAIT_MAX);
    let lease = scene.store.wait_for(&asked).await.unwrap();
    // A statement that cannot be prepared fails before anything of the commit is sent.
    scene
        .database
        .psql("ALTER TABLE tenure.audit RENAME TO other");
    scene.store.try_upgrade(&lease.lease).await.unwrap_err();
    scene
        .database
        .psql("ALTER TABLE tenure.other RENAME TO audit");
    let inside = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND application_name LIKE 'tenure%' AND state LIKE 'idle in transaction%'";
    assert_eq!(scene.database.psql(inside), "0");
    scene.store.token(&resource("a")).await.unwrap();
    let other = request("b", Mode::Write, WAIT_MAX);
    assert!(scene.store.try_acquire(&other).await.unwrap().is_some());
}

/// A proxy to a server. Once it is armed, the next connection that sends the text goes silent, and
/// stays open.
struct Hole {
    port: u16,
    armed: Arc<AtomicBool>,
}

impl Hole {
    fn before(server: u16, text: &'static [u8]) -> Hole {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let armed = Arc::new(AtomicBool::new(false));
        let hole = Hole {
            port,
            armed: Arc::clone(&armed),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let armed = Arc::clone(&armed);
                thread::spawn(move || pass_on(back.0, back.1, |_| false));
                thread::spawn(move || {
                    pass_on(client, server, |said| {
                        said.windows(text.len()).any(|part| part == text)
                            && armed.swap(false, Ordering::SeqCst)
                    });
                });
            }
        });
        hole
    }
}

/// Passes on the bytes of one side until it ends, and none once `swallows` has returned true.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut swallows: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if swallows(&buffer[..length]) {
            // The connection stays open, and is read to its end.
            while matches!(from.read(&mut buffer), Ok(1..)) {}
            break;
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

/// Makes the next statement that adds a lease fail with an SQLSTATE, and only that one: a sequence
/// is not rolled back.
fn fail_once(database: &Database, code: &str) {
    database.psql(&format!(
        "DROP TRIGGER IF EXISTS fault ON tenure.dal_locks;
         DROP SEQUENCE IF EXISTS public.faults;
         CREATE SEQUENCE public.faults;
         CREATE OR REPLACE FUNCTION public.fault() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('public.faults') = 1 THEN
                 RAISE EXCEPTION 'a fault' USING ERRCODE = '{code}';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER fault BEFORE INSERT ON tenure.dal_locks FOR EACH ROW EXECUTE FUNCTION public.fault()"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_asked_for_again_after_a_deadlock_and_not_after_a_mistake() {
    let scene = Scene::new().await;
    let tries = || scene.database.psql("SELECT last_value FROM public.faults");
    for code in ["40001", "40P01", "55P03"] {
        fail_once(&scene.database, code);
        let lease = take(&scene.store, "a").await;
        scene.store.release(&lease.lease).await.unwrap();
        assert_eq!(tries(), "2", "{code}");
    }
    fail_once(&scene.database, "22000");
    let asked = request("a", Mode::Write, WAIT_MAX);
    let error = scene.store.wait_for(&asked).await.unwrap_err();
    assert!(error.to_string().contains("a fault"), "{error}");
    assert!(!error.is_passing(), "{error}");
    assert_eq!(tries(), "1");
}
