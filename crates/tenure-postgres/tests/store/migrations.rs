//! Tables that are made, found, newer than this program, or of another owner.

use tenure_core::{Class, Store};
use tenure_testkit::postgres::Cluster;

use crate::scene::{open, resource, take};

/// Each migration has a thread and a runtime of its own, as if it ran on a machine of its own.
#[test]
fn eight_racing_migrations_make_the_tables_once() {
    for round in 0..3 {
        let database = Cluster::shared().database();
        let opened: Vec<_> = std::thread::scope(|scope| {
            let nodes: Vec<_> = (0..8)
                .map(|_| {
                    let url = database.url();
                    scope.spawn(move || {
                        let runtime = tokio::runtime::Builder::new_current_thread()
                            .enable_all()
                            .build()
                            .unwrap();
                        runtime.block_on(async {
                            let store = open(&url).await.map_err(|error| error.to_string())?;
                            let name = format!("node:{:?}", std::thread::current().id());
                            let lease = take(&store, &name.replace(['(', ')'], "-")).await;
                            let released = store.release(&lease.lease).await;
                            released.map_err(|error| error.to_string())
                        })
                    })
                })
                .collect();
            nodes.into_iter().map(|node| node.join().unwrap()).collect()
        });
        assert_eq!(opened, vec![Ok(()); 8], "round {round}");
        let made = "SELECT count(*) = max(version), count(*) > 0, (SELECT count(*) FROM tenure.store) \
                    FROM tenure.migrations";
        assert_eq!(database.psql(made), "t|t|1", "round {round}");
        assert_eq!(database.psql("SELECT count(*) FROM tenure.audit"), "16");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_newer_tenure_are_refused_and_left_alone() {
    let database = Cluster::shared().database();
    drop(open(&database.url()).await.unwrap());
    database.psql("INSERT INTO tenure.migrations VALUES (999, now())");
    let error = open(&database.url()).await.err().unwrap();
    assert_eq!(error.class(), Class::Configuration, "{error:?}");
    assert!(error.to_string().contains("newer tenure"), "{error}");
    assert!(error.to_string().contains("999"), "{error}");
    assert!(
        error.remedy().to_string().contains("upgrade tenure"),
        "{error:?}"
    );
    database.psql("DELETE FROM tenure.migrations WHERE version = 999");
    let store = open(&database.url()).await.unwrap();
    take(&store, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_another_program_is_refused_and_left_alone() {
    let database = Cluster::shared().database();
    database.psql("CREATE SCHEMA tenure; CREATE TABLE tenure.professors (name text)");
    let error = open(&database.url()).await.err().unwrap();
    assert_eq!(error.class(), Class::Configuration, "{error:?}");
    assert!(error.to_string().contains("another program"), "{error}");
    let tables = "SELECT string_agg(relname, ',') FROM pg_class \
                  WHERE relnamespace = 'tenure'::regnamespace AND relkind = 'r'";
    assert_eq!(database.psql(tables), "professors");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_open_finds_what_the_first_left() {
    let database = Cluster::shared().database();
    let first = open(&database.url()).await.unwrap();
    let lease = take(&first, "a").await;
    let second = open(&database.url()).await.unwrap();
    assert_eq!(
        second.token(&resource("a")).await.unwrap(),
        Some(lease.token)
    );
    second.release(&lease.lease).await.unwrap();
    assert!(take(&first, "a").await.token > lease.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_only_builds_before_the_first_release_made_are_let_be() {
    let database = Cluster::shared().database();
    drop(open(&database.url()).await.unwrap());
    database.psql(
        "CREATE UNLOGGED TABLE tenure.advisory_holders (); CREATE TABLE tenure.advisory_last ()",
    );
    let store = open(&database.url()).await.unwrap();
    take(&store, "a").await;
}
