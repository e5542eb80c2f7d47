//! The findings that `tenure doctor` shows.

use tenure_core::{Examined, Mode, Store};
use tenure_testkit::postgres::{Cluster, Settings};

use crate::scene::{Asks, Scene, WAIT_MAX, as_role, open, request, take, unique, until};

const ALL: [&str; 8] = [
    "server",
    "clock",
    "pooler",
    "schema",
    "permissions",
    "connections",
    "consistency",
    "leases",
];

async fn examined(store: &impl Store) -> Vec<Examined> {
    let told = store.examine().await.unwrap();
    let names: Vec<_> = told.iter().map(|one| one.name).collect();
    assert_eq!(names, ALL);
    for one in &told {
        assert_eq!(one.good, one.remedy.is_none(), "{one:?}");
    }
    told
}

async fn bad(store: &impl Store) -> Vec<Examined> {
    let mut told = examined(store).await;
    told.retain(|one| !one.good);
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_store_is_found_sound_and_told_in_numbers() {
    let scene = Scene::with("?lease_ttl=1s").await;
    let expired = take(&scene.store, "a").await;
    let gone = "SELECT count(*) FROM tenure.dal_locks WHERE lease_expires > clock_timestamp()";
    until("it expires", || scene.database.psql(gone) == "0").await;
    let lasting = open(&scene.database.url()).await.unwrap();
    let held = take(&lasting, "b").await;
    let other = open(&scene.database.url()).await.unwrap();
    let waiting = tokio::spawn(async move {
        let lease = other.wait_for(&request("b", Mode::Write, WAIT_MAX)).await;
        (other, lease)
    });
    until("it waits", || scene.waiting() == 1).await;
    let told = examined(&scene.store).await;
    let wrong: Vec<_> = told.iter().filter(|one| !one.good).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let text = |name| &told.iter().find(|one| one.name == name).unwrap().text;
    assert!(
        text("server").starts_with("PostgreSQL 1"),
        "{}",
        text("server")
    );
    assert!(text("clock").contains("round trip"), "{}", text("clock"));
    let counted = "1 held, 1 waiting, 1 expired";
    assert!(text("leases").starts_with(counted), "{}", text("leases"));
    let made = scene.database.psql("SELECT id FROM tenure.store");
    assert!(text("schema").contains(&made), "{}", text("schema"));
    // The examination changed nothing.
    let there = "SELECT string_agg(lock_id, ' ' ORDER BY resource) FROM tenure.dal_locks";
    assert_eq!(
        scene.database.psql(there),
        format!("{} {}", expired.lease, held.lease)
    );
    lasting.release(&held.lease).await.unwrap();
    waiting.await.unwrap().1.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_somebody_else_changed_are_found() {
    let scene = Scene::new().await;
    let held = take(&scene.store, "held").await;
    let free = take(&scene.store, "free").await;
    scene.store.release(&free.lease).await.unwrap();
    for (tampering, mended, wrong) in [
        (
            "UPDATE tenure.resources SET alone = '' WHERE resource = 'name:held'".to_owned(),
            format!(
                "UPDATE tenure.resources SET alone = '{}' WHERE resource = 'name:held'",
                held.lease
            ),
            "name:held",
        ),
        (
            "UPDATE tenure.resources SET alone = 'nobody' WHERE resource = 'name:held'".to_owned(),
            "UPDATE tenure.resources SET alone = NULL WHERE resource = 'name:held'".to_owned(),
            "name:held",
        ),
        (
            "UPDATE tenure.resources SET alone = 'nobody' WHERE resource = 'name:free'".to_owned(),
            "UPDATE tenure.resources SET alone = NULL WHERE resource = 'name:free'".to_owned(),
            "name:free",
        ),
        (
            "DELETE FROM tenure.resources WHERE resource = 'name:held'".to_owned(),
            "INSERT INTO tenure.resources VALUES ('name:held', 0, NULL)".to_owned(),
            "name:held",
        ),
    ] {
        assert_eq!(bad(&scene.store).await, [], "before {tampering}");
        scene.database.psql(&tampering);
        let told = bad(&scene.store).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].name, "consistency");
        assert!(told[0].text.contains(wrong), "{told:?}");
        scene.database.psql(&mended);
    }
    // The remedy in the finding mends it, too.
    scene.database.psql("DELETE FROM tenure.resources");
    let remedy = bad(&scene.store)
        .await
        .remove(0)
        .remedy
        .unwrap()
        .to_string();
    let (_, statements) = remedy.split_once("run: ").unwrap();
    scene.database.psql(statements);
    assert_eq!(bad(&scene.store).await, []);
    scene.store.release(&held.lease).await.unwrap();
    take(&scene.store, "held").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_found_with_what_to_grant() {
    let scene = Scene::new().await;
    let role = unique("reader");
    scene.database.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA tenure TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA tenure TO {role}"
    ));
    let store = open(&as_role(&scene.database.url(), &role)).await.unwrap();
    let told = bad(&store).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].name, "permissions");
    assert!(told[0].text.contains(&role), "{told:?}");
    let remedy = told[0].remedy.as_ref().unwrap().to_string();
    let (_, statements) = remedy.split_once("run: ").unwrap();
    scene.database.psql(statements);
    assert_eq!(bad(&store).await, []);
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    drop(store);
    scene
        .database
        .psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn few_connections_left_are_found() {
    let settings = Settings::default()
        .parameter("max_connections", 12)
        .parameter("superuser_reserved_connections", 3);
    let cluster = Cluster::with(&settings);
    let database = cluster.database();
    let store = open(&database.url()).await.unwrap();
    let told = bad(&store).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].name, "connections");
    assert!(told[0].text.contains("of 12"), "{told:?}");
    assert!(told[0].text.contains("3 reserved"), "{told:?}");
}

/// A part that cannot be examined is bad, and the other parts are told all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_told_part_by_part() {
    let mut cluster = Cluster::with(&Settings::default());
    let database = cluster.database();
    let store = open(&database.url()).await.unwrap();
    assert_eq!(bad(&store).await, []);
    cluster.stop(tenure_testkit::postgres::Stop::Fast);
    assert_eq!(bad(&store).await.len(), ALL.len());
    cluster.start();
    assert_eq!(bad(&store).await, []);
}
