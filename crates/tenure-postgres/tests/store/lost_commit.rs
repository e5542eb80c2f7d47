//! A change of records whose connection is lost at `COMMIT`: it is made once, or the caller is told
//! that its result is unknown.
//!
//! The changes here write to the audit, which only the second round trip does: a lock on that table
//! holds up the writes and the `COMMIT` that is sent with them.

use serde_json::{Value, json};
use tenure_core::audit::Action;
use tenure_core::records::{Changes, Columns, NewEntry, RecordChange, RecordKey, Seen};
use tenure_core::{Class, Error, Owner, RecordStore, Result, Store};
use tenure_testkit::postgres::Psql;

use crate::scene::{Scene, resource, until};
use crate::unknown::{behind, without_second_answer};

fn counter() -> RecordKey {
    RecordKey::new("counter", "a").unwrap()
}

/// Adds one to the counter, with an entry in the audit.
fn add_one(seen: &Seen) -> Result<Changes> {
    let before = seen.get(&counter()).and_then(|record| record.body.as_u64());
    let mut changes = only_tell(seen)?;
    let sum = json!(before.unwrap_or(0) + 1);
    changes.put(counter(), Columns::default(), sum);
    Ok(changes)
}

/// Writes to the audit alone.
fn only_tell(_: &Seen) -> Result<Changes> {
    let mut changes = Changes::default();
    let owner = Owner::parse("ana").unwrap();
    changes.note(NewEntry {
        action: Action::Publish,
        resource: resource("counter"),
        lease: None,
        token: None,
        owner: owner.clone(),
        actor: owner,
        reason: None,
    });
    Ok(changes)
}

fn change() -> RecordChange<'static> {
    RecordChange::new([counter()], &add_one)
}

/// Asserts that the counter was changed so often, and that the audit tells of each change once.
async fn assert_changed(scene: &Scene, times: u64) {
    let records: &dyn RecordStore = scene.store.records().unwrap();
    let record = records.read_record(&counter()).await.unwrap().unwrap();
    assert_eq!((record.version, record.body), (times, Value::from(times)));
    let told = scene.count("tenure.audit WHERE action = 'publish'");
    assert_eq!(told, times.to_string());
}

fn is_changed(times: u64) -> String {
    format!("SELECT count(*) = 1 FROM tenure.records WHERE version = {times}")
}

/// Holds up the second round trip of every change until it commits.
fn barrier(scene: &Scene) -> Psql {
    let mut session = scene.database.session();
    session.run("BEGIN");
    session.run("LOCK TABLE tenure.audit IN SHARE MODE");
    session
}

/// Counts the statements of Tenure that wait at the server for an event.
fn waiting_for(scene: &Scene, event: &str) -> String {
    scene.count(&format!(
        "pg_stat_activity WHERE datname = current_database() AND wait_event = '{event}' \
         AND application_name LIKE 'tenure%'"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_commit_is_not_answered_is_made_once() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let records = store.records().unwrap();
    for number in 0..3 {
        // The statements are prepared again after each cut.
        records.change_records(&change()).await.unwrap();
        let times = 2 * number + 2;
        let done = is_changed(times);
        let change = change();
        let asked = records.change_records(&change);
        let written = without_second_answer(&scene, &proxy, ("audit", &done), asked).await;
        assert_eq!(written.unwrap()[0].version, times);
        assert_changed(&scene, times).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_cut_off_before_its_commit_waits_for_it_and_is_made_once() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let records = store.records().unwrap();
    records.change_records(&change()).await.unwrap();
    let mut barrier = barrier(&scene);
    let cut = async {
        until("it is held up", || waiting_for(&scene, "relation") == "1").await;
        proxy.cut();
        let is_behind = || waiting_for(&scene, "transactionid") == "1";
        until("the second try waits for the first", is_behind).await;
        barrier.run("COMMIT");
    };
    let change = change();
    let (written, ()) = tokio::join!(records.change_records(&change), cut);
    assert_eq!(written.unwrap()[0].version, 2);
    assert_changed(&scene, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_commit_was_never_made_is_made_by_the_next_try() {
    let scene = Scene::new().await;
    let records = scene.store.records().unwrap();
    records.change_records(&change()).await.unwrap();
    let mut barrier = barrier(&scene);
    let end = async {
        until("it is held up", || waiting_for(&scene, "relation") == "1").await;
        scene.database.psql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
             AND wait_event = 'relation' AND application_name LIKE 'tenure%'",
        );
        until("it tries again", || waiting_for(&scene, "relation") == "1").await;
        barrier.run("COMMIT");
    };
    let change = change();
    let (written, ()) = tokio::join!(records.change_records(&change), end);
    assert_eq!(written.unwrap()[0].version, 2);
    assert_changed(&scene, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_an_answer_that_others_came_after_is_told_and_not_made_again() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let records = store.records().unwrap();
    records.change_records(&change()).await.unwrap();
    let mut barrier = barrier(&scene);
    let lose = async {
        until("it is held up", || waiting_for(&scene, "relation") == "1").await;
        proxy.pause_answers();
        barrier.run("COMMIT");
        let done = is_changed(2);
        until("it is made", || scene.database.psql(&done) == "t").await;
        let others = scene.store.records().unwrap();
        others.change_records(&change()).await.unwrap();
        proxy.cut();
        proxy.resume();
    };
    let change = change();
    let (told, ()) = tokio::join!(records.change_records(&change), lose);
    let error = told.unwrap_err();
    assert!(matches!(error, Error::HalfWay { .. }), "{error}");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    assert_changed(&scene, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_an_answer_that_only_wrote_to_the_audit_is_told_and_not_made_again() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let records = store.records().unwrap();
    records.change_records(&change()).await.unwrap();
    let told = "tenure.audit WHERE action = 'publish'";
    let done = format!("SELECT count(*) = 2 FROM {told}");
    let change = RecordChange::new([counter()], &only_tell);
    let asked = records.change_records(&change);
    let answer = without_second_answer(&scene, &proxy, ("audit", &done), asked).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::HalfWay { .. }), "{error}");
    assert_eq!(scene.count(told), "2");
}
