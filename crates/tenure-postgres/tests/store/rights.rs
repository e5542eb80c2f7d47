//! Roles that lack a right that is needed: each is told what to grant.

use tenure_core::{Class, Error, Mode, Store};
use tenure_testkit::postgres::Cluster;

use crate::scene::{Asks, SHORT, Scene, as_role, open, request, take, unique};

const USE: &str = "GRANT USAGE ON SCHEMA tenure TO";
const TABLES: &str = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure TO";

async fn refused(url: &str) -> Error {
    match open(url).await {
        Err(error) => error,
        Ok(store) => {
            let request = request("a", Mode::Write, SHORT);
            store.wait_for(&request).await.unwrap_err()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_rights_is_told_which_it_needs() {
    let scene = Scene::new().await;
    let empty = Cluster::shared().database();
    let role = unique("nobody");
    empty.psql(&format!("CREATE ROLE {role} LOGIN"));
    let told = |error: Error, wanted: &str| {
        assert_eq!(error.class(), Class::Configuration, "{error:?}");
        assert!(error.remedy().to_string().contains(wanted), "{error:?}");
        assert!(error.to_string().contains("permission denied"), "{error}");
    };
    // Where there is no schema yet, a role has to be allowed to make it.
    let url = as_role(&empty.url(), &role);
    let create = format!("GRANT CREATE ON DATABASE {} TO {role}", empty.name());
    told(refused(&url).await, &create);
    // Where there is a schema, each missing right is told in turn.
    let url = as_role(&scene.database.url(), &role);
    told(refused(&url).await, &format!("{USE} {role};"));
    scene.database.psql(&format!("{USE} {role}"));
    told(refused(&url).await, &format!("{TABLES} {role};"));
    scene.database.psql(&format!("{TABLES} {role}"));
    scene.database.psql(&format!(
        "GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA tenure TO {role}"
    ));
    let store = open(&url).await.unwrap();
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    drop(store);
    scene
        .database
        .psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// A role that may only use the tables cannot bring them up to date.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_older_tables_is_told_that_their_owner_has_to_come_first() {
    let scene = Scene::new().await;
    let role = unique("user");
    scene.database.psql(&format!(
        "CREATE ROLE {role} LOGIN; {USE} {role}; {TABLES} {role};
         DROP FUNCTION tenure.release(text, bigint), tenure.release(text, bigint, text), tenure.take_up; DROP TABLE tenure.records, tenure.settings CASCADE;
         DROP INDEX tenure.dal_locks_by_owner; ALTER TABLE tenure.dal_locks DROP COLUMN grace_ms, DROP COLUMN agent;
         ALTER TABLE tenure.waiters DROP COLUMN ancestors, DROP COLUMN lasting, DROP COLUMN agent;
         DELETE FROM tenure.migrations WHERE version > 2"
    ));
    let url = as_role(&scene.database.url(), &role);
    let error = refused(&url).await;
    assert_eq!(error.class(), Class::Configuration, "{error:?}");
    assert!(error.to_string().contains("has schema 2"), "{error}");
    assert!(error.to_string().contains(&role), "{error}");
    assert!(
        error
            .remedy()
            .to_string()
            .contains("as the owner of the schema")
    );
    drop(open(&scene.database.url()).await.unwrap());
    drop(open(&url).await.unwrap());
    scene
        .database
        .psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// The audit record only grows: changes are refused whatever the rights, and so are entries that
/// bring their own number.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_changes_the_record_with_the_rights_of_a_user() {
    let scene = Scene::new().await;
    let lease = take(&scene.store, "a").await;
    for tampering in [
        "UPDATE tenure.audit SET owner = 'x'",
        "DELETE FROM tenure.audit",
        "TRUNCATE tenure.audit",
        "INSERT INTO tenure.audit (seq, at, action, resource, lock_id, token, owner, actor) \
         VALUES (999, now(), 'release', 'name:a', 'x', 1, 'o', 'o')",
    ] {
        let refused = scene.database.try_psql(tampering);
        assert!(refused.is_err(), "{tampering}");
    }
    let left = "SELECT count(*), min(action), min(lock_id) FROM tenure.audit";
    assert_eq!(
        scene.database.psql(left),
        format!("1|acquire|{}", lease.lease)
    );
}
