//! The plain cases: each takes one round trip and one statement.
//!
//! A proxy that holds answers back proves it: a step that needs a second round trip stops there.

use std::time::Duration;

use tenure_core::{Mode, Store};
use tenure_testkit::postgres::{Database, Proxy};

use crate::scene::{Asks, Scene, WAIT_MAX, open, request, take, until};

/// Makes every change record the statement that made it.
fn have_changes_told(database: &Database) {
    database.psql("CREATE TABLE public.said (lock_id text, statement text)");
    for table in ["resources", "dal_locks", "audit"] {
        database.psql(&format!(
            "CREATE FUNCTION public.say_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO public.said VALUES ('{table}', statement_timestamp()::text || pg_current_xact_id()::text); \
             RETURN NULL; END $$; \
             CREATE TRIGGER say AFTER INSERT OR UPDATE OR DELETE ON tenure.{table} \
             FOR EACH ROW EXECUTE FUNCTION public.say_{table}()"
        ));
    }
}

/// Returns how many statements made changes since the last call, and the tables they changed.
fn said(database: &Database) -> String {
    let sql = "SELECT count(DISTINCT statement), string_agg(lock_id, ' ' ORDER BY lock_id) FROM public.said";
    let said = database.psql(sql);
    database.psql("TRUNCATE public.said");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_and_a_release_of_what_is_free_are_one_statement_each() {
    let scene = Scene::new().await;
    have_changes_told(&scene.database);
    let said = || said(&scene.database);
    for mode in [Mode::Write, Mode::Read] {
        let asked = request("a", mode, WAIT_MAX);
        let lease = scene.store.wait_for(&asked).await.unwrap();
        assert_eq!(said(), "1|audit dal_locks resources");
        scene.store.release(&lease.lease).await.unwrap();
        assert_eq!(said(), "1|audit dal_locks resources");
        let asked = request("a", mode, WAIT_MAX);
        let lease = scene.store.try_acquire(&asked).await.unwrap().unwrap();
        assert_eq!(said(), "1|audit dal_locks resources");
        scene.store.release(&lease.lease).await.unwrap();
        assert_eq!(said(), "1|audit dal_locks resources");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_and_a_release_of_what_is_free_are_one_round_trip_each() {
    let scene = Scene::new().await;
    let proxy = Proxy::before(&scene.database);
    let store = open(&proxy.url_through(&scene.database)).await.unwrap();
    // All statements are prepared now.
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    let held = || scene.database.psql("SELECT count(*) FROM tenure.dal_locks");
    // No answer comes back, so everything that is done is the work of the first message.
    proxy.pause_answers();
    let asked = request("a", Mode::Write, WAIT_MAX);
    let acquire = store.wait_for(&asked);
    let answer = async {
        until("it is granted without an answer", || held() == "1").await;
        proxy.resume();
    };
    let (lease, ()) = tokio::join!(acquire, answer);
    let lease = lease.unwrap();
    proxy.pause_answers();
    let answer = async {
        until("it is released without an answer", || held() == "0").await;
        proxy.resume();
    };
    let (released, ()) = tokio::join!(store.release(&lease.lease), answer);
    released.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_passed_on_in_one_statement_and_taken_up_in_another() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    have_changes_told(&scene.database);
    let lease = take(&scene.store, "a").await;
    let asked = request("a", Mode::Write, WAIT_MAX);
    let waiting = tokio::spawn(async move { (other.wait_for(&asked).await.unwrap(), other) });
    until("it waits", || scene.waiting() == 1).await;
    said(&scene.database);
    scene.store.release(&lease.lease).await.unwrap();
    let (next, other) = waiting.await.unwrap();
    assert!(next.token > lease.token);
    let passed_on = "audit audit dal_locks dal_locks resources".split(' ');
    let taken_up = "dal_locks resources".split(' ');
    let mut all: Vec<_> = passed_on.chain(taken_up).collect();
    all.sort_unstable();
    assert_eq!(said(&scene.database), format!("2|{}", all.join(" ")));
    other.release(&next.lease).await.unwrap();
    assert_eq!(said(&scene.database), "1|audit dal_locks resources");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_with_a_writer_in_line_is_one_round_trip() {
    let scene = Scene::new().await;
    let proxy = Proxy::before(&scene.database);
    let store = open(&proxy.url_through(&scene.database)).await.unwrap();
    // All statements are prepared now.
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    let lease = take(&store, "a").await;
    let asked = request("a", Mode::Write, WAIT_MAX);
    let next = scene.store.wait_for(&asked);
    let release = async {
        until("it waits", || scene.waiting() == 1).await;
        // No answer comes back, so everything that is done is the work of the first message.
        proxy.pause_answers();
        store.release(&lease.lease).await.unwrap();
    };
    let answer = async {
        let next = next.await.unwrap();
        proxy.resume();
        next
    };
    let ((), next) = tokio::join!(release, answer);
    assert!(next.token > lease.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_meet_in_the_empty_case_one_is_granted() {
    let scene = Scene::new().await;
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(std::sync::Arc::new(
            open(&scene.database.url()).await.unwrap(),
        ));
    }
    let mut last = 0;
    for round in 0..20 {
        let name = format!("r{}", round / 2);
        let asked: Vec<_> = stores
            .iter()
            .map(|store| {
                let (store, asked) = (
                    std::sync::Arc::clone(store),
                    request(&name, Mode::Write, Duration::ZERO),
                );
                tokio::spawn(async move { store.try_acquire(&asked).await.unwrap() })
            })
            .collect();
        let mut granted = Vec::new();
        for (asked, store) in asked.into_iter().zip(&stores) {
            granted.extend(asked.await.unwrap().map(|lease| (store, lease)));
        }
        assert_eq!(
            granted.len(),
            1,
            "{granted:?}",
            granted = granted.iter().map(|(_, l)| l).collect::<Vec<_>>()
        );
        let (store, lease) = granted.remove(0);
        assert!(lease.token.get() > last);
        last = lease.token.get();
        store.release(&lease.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_meets_a_renewal_of_the_same_lease_ends_it() {
    let scene = Scene::new().await;
    let other = std::sync::Arc::new(open(&scene.database.url()).await.unwrap());
    let left = "SELECT (SELECT count(*) FROM tenure.dal_locks), (SELECT string_agg(alone, '') = '' FROM tenure.resources)";
    for round in 0..50 {
        let lease = take(&scene.store, "a").await;
        let renewing = {
            let (other, lease) = (std::sync::Arc::clone(&other), lease.lease.clone());
            tokio::spawn(async move {
                let leases = other.leases().unwrap();
                while leases.extend(&lease, None).await.is_ok() {}
            })
        };
        tokio::time::sleep(Duration::from_micros(300 * round)).await;
        scene.store.release(&lease.lease).await.unwrap();
        renewing.await.unwrap();
        assert_eq!(scene.database.psql(left), "0|t", "round {round}");
    }
}
