//! Every loss of draws of the counter leaves the next token higher than any before.
//!
//! The tests play a loss by setting the counter back: the server may lose its last draws, but
//! cannot be made to.

use std::process::Command;

use tenure_core::Token;
use tenure_postgres::advisory::{AdvisoryLocks, Settings};
use tenure_testkit::postgres::{self, Cluster, Database, Stop};

use crate::scene::{AGENT, WAIT_MAX, until};

const SET_BACK: &str = "SELECT setval('tenure.advisory_tokens', 1)";
const EPOCH: &str = "SELECT writer FROM tenure.advisory_epoch";
const STARTED: &str = "SELECT pg_postmaster_start_time()";

async fn service(database: &Database) -> AdvisoryLocks {
    let opened = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    opened.unwrap()
}

async fn draw(locks: &AdvisoryLocks) -> Token {
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_again_puts_nothing_ahead() {
    let database = Cluster::shared().database();
    let first = draw(&service(&database).await).await;
    let epoch = database.psql(EPOCH);
    let second = draw(&service(&database).await).await;
    assert_eq!(second.get(), first.get() + 1);
    assert_eq!(database.psql(EPOCH), epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_begin_at_the_clock() {
    let database = Cluster::shared().database();
    let clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let before: u64 = database.psql(clock).trim().parse().unwrap();
    let token = draw(&service(&database).await).await.get();
    let after: u64 = database.psql(clock).trim().parse().unwrap();
    assert!(before < token && token <= after, "{before} {token} {after}");
}

/// A killed backend counts as a crash of the server, which goes through recovery and keeps its
/// start time.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_backend_puts_tokens_ahead() {
    let cluster = Cluster::with(&postgres::Settings::default());
    let database = cluster.database();
    let locks = service(&database).await;
    let last = draw(&locks).await;
    let started = database.psql(STARTED);
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let pid = guard.backend_pid().to_string();
    let killed = Command::new("kill").args(["-KILL", &pid]).status();
    assert!(killed.unwrap().success());
    guard.lost().await;
    drop(guard);
    let again = "database system is ready to accept connections";
    until("it serves again", || {
        cluster.log().matches(again).count() == 2 && database.try_psql("SELECT 1").is_ok()
    })
    .await;
    assert_eq!(database.psql(STARTED), started);
    database.psql(SET_BACK);
    assert!(draw(&service(&database).await).await > last);
    assert!(draw(&locks).await > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_and_a_restart_put_tokens_ahead() {
    let mut cluster = Cluster::with(&postgres::Settings::default());
    let database = cluster.database();
    for how in [Stop::Crash, Stop::Fast] {
        let last = draw(&service(&database).await).await;
        cluster.restart(how);
        database.psql(SET_BACK);
        assert!(draw(&service(&database).await).await > last);
    }
}

/// The clock may have been set back, too: a million numbers are skipped, whatever the clock says.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_do_not_go_back_with_the_clock() {
    let mut cluster = Cluster::with(&postgres::Settings::default());
    let database = cluster.database();
    draw(&service(&database).await).await;
    // Plays that the clock was an hour ahead when the tokens were drawn.
    database.psql(
        "SELECT setval('tenure.advisory_tokens', last_value + 3600000000) FROM tenure.advisory_tokens",
    );
    let ahead = draw(&service(&database).await).await;
    cluster.restart(Stop::Crash);
    let next = draw(&service(&database).await).await;
    assert!(next.get() > ahead.get() + 900_000, "{ahead} {next}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_database_begins_ahead() {
    let database = Cluster::shared().database();
    let last = {
        let locks = service(&database).await;
        draw(&locks).await
    };
    let (name, copy) = (database.name(), Cluster::shared().database());
    let copied = copy.name().to_owned();
    database.psql(SET_BACK);
    until("nobody is connected", || {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
        copy.psql(&sql).trim() == "0"
    })
    .await;
    let elsewhere = Cluster::shared().database();
    elsewhere.psql(&format!("DROP DATABASE {copied} WITH (FORCE)"));
    elsewhere.psql(&format!("CREATE DATABASE {copied} TEMPLATE {name}"));
    assert!(draw(&service(&copy).await).await > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_made_anew_begins_ahead() {
    let database = Cluster::shared().database();
    let last = draw(&service(&database).await).await;
    database.psql("DROP SCHEMA tenure CASCADE");
    assert!(draw(&service(&database).await).await > last);
}

/// Only the counter is new; the row beside it is still good otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_made_anew_begins_ahead() {
    let database = Cluster::shared().database();
    let last = draw(&service(&database).await).await;
    database.psql("DROP SEQUENCE tenure.advisory_tokens; CREATE SEQUENCE tenure.advisory_tokens");
    assert!(draw(&service(&database).await).await > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_an_old_backup_under_a_running_service_puts_tokens_ahead() {
    let database = Cluster::shared().database();
    let (locks, quiet) = (service(&database).await, service(&database).await);
    draw(&quiet).await;
    draw(&locks).await;
    let backup = dump(&database, &["--clean", "--if-exists"]);
    for _ in 0..20 {
        draw(&locks).await;
    }
    // Several connections know the old counter now.
    let mut guards = Vec::new();
    for id in 2..6 {
        guards.push(locks.lock(AGENT, id, WAIT_MAX).await.unwrap());
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    let last = draw(&locks).await;
    database.psql(&backup);
    // The first service to ask never drew more than the backup knows.
    let first = draw(&quiet).await;
    assert!(first > last, "{first} after {last}");
    let restored = draw(&locks).await;
    assert!(restored > first);
    assert!(draw(&service(&database).await).await > restored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_data_alone_puts_tokens_ahead_when_opened() {
    let database = Cluster::shared().database();
    let backup = {
        let locks = service(&database).await;
        draw(&locks).await;
        dump(&database, &["--data-only", "--table=tenure.advisory_*"])
    };
    assert!(backup.contains("advisory_epoch"), "{backup}");
    let last = {
        let locks = service(&database).await;
        for _ in 0..20 {
            draw(&locks).await;
        }
        draw(&locks).await
    };
    let epoch = "SELECT * FROM tenure.advisory_epoch";
    let row = database.psql(epoch);
    database.psql("TRUNCATE tenure.advisory_epoch");
    database.psql(&backup);
    assert_eq!(database.psql(epoch), row, "the very row is back");
    assert!(draw(&service(&database).await).await > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_set_back_under_a_running_service_is_put_ahead() {
    let database = Cluster::shared().database();
    let locks = service(&database).await;
    let last = draw(&locks).await;
    database.psql(SET_BACK);
    let next = draw(&locks).await;
    assert!(next > last);
    let foreign = draw(&service(&database).await).await;
    assert_eq!(foreign.get(), next.get() + 1, "the counter itself is ahead");
}

/// Many services find the counter in doubt at once: it is put ahead once, and all draw from it.
#[tokio::test(flavor = "multi_thread")]
async fn many_that_open_at_once_put_tokens_ahead_once() {
    let database = Cluster::shared().database();
    let last = draw(&service(&database).await).await;
    database.psql(&format!("DELETE FROM tenure.advisory_epoch; {SET_BACK}"));
    // All services have looked before any of them can write.
    let mut barrier = database.session();
    barrier.run("BEGIN; LOCK TABLE tenure.advisory_epoch IN SHARE MODE");
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url();
            let settings = Settings::default().with_open(WAIT_MAX);
            tokio::spawn(async move {
                let locks = AdvisoryLocks::open(&url, settings).await;
                draw(&locks.unwrap()).await
            })
        })
        .collect();
    let held_up = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = \
                   (SELECT oid FROM pg_database WHERE datname = current_database())";
    until("all are held up", || database.psql(held_up) == "8").await;
    barrier.run("COMMIT");
    let mut tokens = Vec::new();
    for opened in opening {
        tokens.push(opened.await.unwrap().get());
    }
    tokens.sort_unstable();
    assert!(tokens[0] > last.get());
    let ahead = format!(
        "SELECT extract(epoch FROM clock_timestamp()) * 1000000 > {}",
        tokens[0]
    );
    assert_eq!(database.psql(&ahead), "t", "put ahead again and again");
    assert_eq!(
        database.psql("SELECT count(*) FROM tenure.advisory_epoch"),
        "1"
    );
    let all: Vec<u64> = (tokens[0]..tokens[0] + 8).collect();
    assert_eq!(tokens, all);
}

fn dump(database: &Database, options: &[&str]) -> String {
    let dumped = Command::new("pg_dump")
        .args(options)
        .args(["--dbname", &database.url()])
        .output();
    let dumped = dumped.expect("pg_dump is needed: install postgresql-client");
    assert!(dumped.status.success(), "{dumped:?}");
    String::from_utf8(dumped.stdout).unwrap()
}
