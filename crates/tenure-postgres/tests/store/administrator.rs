//! Settings that an administrator may have made for all programs.

use std::time::Duration;

use tenure_core::{Lease, Mode, Store};
use tenure_postgres::PostgresStore;
use tenure_testkit::postgres::{Cluster, Database, Settings, Stop};

use crate::scene::{Asks, Scene, WAIT_MAX, as_role, open, request, take, unique, until};

/// The timeouts are set for the role, the most common way. Everything that the server ends because
/// of one of them is in its log.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_of_the_role_does_not_end_a_wait() {
    let cluster = Cluster::with(&Settings::default());
    let database = cluster.database();
    let role = unique("hurried");
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE {} TO {role};
         ALTER ROLE {role} SET statement_timeout = '50ms';
         ALTER ROLE {role} SET lock_timeout = '20ms';
         ALTER ROLE {role} SET idle_session_timeout = '1s';
         ALTER ROLE {role} SET idle_in_transaction_session_timeout = '1s'",
        database.name()
    ));
    let url = as_role(&database.url(), &role);
    let (first, second) = (open(&url).await.unwrap(), open(&url).await.unwrap());
    let held = take(&first, "a").await;
    let waiting = tokio::spawn(async move {
        let request = request("a", Mode::Write, WAIT_MAX);
        let lease = second.wait_for(&request).await;
        (second, lease)
    });
    let waiters = || database.psql("SELECT count(*) FROM tenure.waiters") == "1";
    until("it waits", waiters).await;
    // This is longer than each of the timeouts.
    tokio::time::sleep(Duration::from_millis(1400)).await;
    assert!(!waiting.is_finished(), "it waits on");
    assert!(waiters(), "in its place");
    // A statement that waits for a row may also wait longer than the role's `lock_timeout`.
    let mut other = database.session();
    other.run("BEGIN; SELECT 1 FROM tenure.resources FOR UPDATE");
    let releasing = tokio::spawn(async move {
        first.release(&held.lease).await.unwrap();
        (first, held)
    });
    until("it waits for the row", || database.psql(BLOCKED) != "0").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.run("COMMIT");
    let (first, held) = releasing.await.unwrap();
    let (second, lease) = waiting.await.unwrap();
    let lease = lease.unwrap();
    assert!(lease.token > held.token);
    second.release(&lease.lease).await.unwrap();
    drop((first, second));
    let log = cluster.log();
    for ended in ["canceling statement", "terminating connection"] {
        assert!(!log.contains(ended), "{log}");
    }
}

/// The first statement, which takes no time, lifts the timeout. Where even that took too long, it
/// is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_shorter_than_it_takes_to_set_up_a_session_is_lifted() {
    let scene = Scene::new().await;
    let role = unique("hasty");
    scene.database.psql(&format!(
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET statement_timeout = '1ms'"
    ));
    let url = as_role(&scene.database.url(), &role);
    let slow = "SELECT pg_sleep(0.1)";
    assert!(scene.database.try_psql_at(&url, slow).is_err(), "no limit");
    for _ in 0..5 {
        let store = open(&url).await.unwrap();
        let lease = take(&store, "a").await;
        store.release(&lease.lease).await.unwrap();
    }
    scene.database.psql(&format!("DROP ROLE {role}"));
}

/// Counts the connections that wait for a row.
const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND wait_event_type = 'Lock'";

/// A step waits for a row that another session has locked for a while, whatever the lock_timeout of
/// the role.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_timeout_does_not_break_a_step_that_has_to_wait_for_a_row() {
    let scene = Scene::new().await;
    let name = scene.database.name();
    scene.database.psql(&format!(
        "ALTER DATABASE {name} SET lock_timeout = '20ms'; ALTER DATABASE {name} SET deadlock_timeout = '10ms'"
    ));
    let store = open(&scene.database.url()).await.unwrap();
    let lease = take(&store, "a").await;
    let mut other = scene.database.session();
    other.run("BEGIN; SELECT 1 FROM tenure.resources WHERE resource = 'name:a' FOR UPDATE");
    let releasing = tokio::spawn(async move { store.release(&lease.lease).await });
    until("it waits for the row", || {
        scene.database.psql(BLOCKED) == "1"
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!releasing.is_finished());
    other.run("COMMIT");
    releasing.await.unwrap().unwrap();
}

/// The setting lets other programs lose writes with the power, but not Tenure: after a crash the
/// server still has the grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_survives_a_crash_whatever_synchronous_commit_is_for_others() {
    // The server writes nothing by itself during this test.
    let settings = Settings::default().parameter("wal_writer_delay", "10s");
    let mut cluster = Cluster::with(&settings);
    let database = cluster.database();
    let name = database.name().to_owned();
    database.psql(&format!(
        "ALTER DATABASE {name} SET synchronous_commit = off"
    ));
    let store = open(&database.url()).await.unwrap();
    database.psql("CREATE TABLE notes (note text); INSERT INTO notes VALUES ('first')");
    // The first grant is an empty case; the second finds a holder, and takes a step.
    let mut held = Vec::new();
    for _ in 0..2 {
        // The server's own writer wakes every ten seconds, perhaps right between the two.
        let mut tries = 0;
        let lease = loop {
            let (lease, others_lost) = crash_after_a_grant(&mut cluster, &database, &store).await;
            if others_lost {
                break lease;
            }
            tries += 1;
            assert!(
                tries < 5,
                "the server wrote everything: nothing is shown here"
            );
            store.release(&lease.lease).await.unwrap();
        };
        held.push(lease);
    }
    for lease in held {
        store.release(&lease.lease).await.unwrap();
    }
    assert_eq!(database.psql("SELECT count(*) FROM tenure.dal_locks"), "0");
}

/// Grants a lease, lets another program write something after it, and crashes the server. Returns
/// the lease, which must be there, and whether the other program lost its write.
async fn crash_after_a_grant(
    cluster: &mut Cluster,
    database: &Database,
    store: &PostgresStore,
) -> (Lease, bool) {
    // The first change of a page after a checkpoint logs the whole page, and full pages of the log
    // are written at once.
    let read = || async {
        let asked = request("a", Mode::Read, WAIT_MAX);
        store.wait_for(&asked).await.unwrap()
    };
    store.release(&read().await.lease).await.unwrap();
    let lease = read().await;
    // Another program does lose its last write, which is no more than a few bytes after the grant.
    database.psql("INSERT INTO notes VALUES ('last')");
    cluster.restart(Stop::Crash);
    let (found, id) = (
        "SELECT state FROM tenure.dal_locks WHERE lock_id",
        &lease.lease,
    );
    assert_eq!(database.psql(&format!("{found} = '{id}'")), "held");
    let others_lost = database.psql("SELECT note FROM notes") == "first";
    database.psql("SET synchronous_commit = on; DELETE FROM notes WHERE note = 'last'");
    (lease, others_lost)
}
