//! The empty cases take one round trip each, and what each is.
//!
//! A proxy that holds answers back counts them: what needs a second round trip does not get it.

use std::time::Duration;

use tenure_core::{Mode, Store};
use tenure_testkit::postgres::Proxy;

use crate::scene::{PATIENCE, Scene, open, request, take};

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_and_a_release_of_what_is_free_are_one_statement_each() {
    let scene = Scene::new().await;
    scene
        .database
        .psql("CREATE TABLE public.said (lock_id text, statement text)");
    // Whatever is written says by which statement: all of it is one and the same.
    for table in ["resources", "dal_locks", "audit"] {
        scene.database.psql(&format!(
            "CREATE FUNCTION public.say_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO public.said VALUES ('{table}', statement_timestamp()::text || pg_current_xact_id()::text); \
             RETURN NULL; END $$; \
             CREATE TRIGGER say AFTER INSERT OR UPDATE OR DELETE ON tenure.{table} \
             FOR EACH ROW EXECUTE FUNCTION public.say_{table}()"
        ));
    }
    let said = || {
        let sql = "SELECT count(DISTINCT statement), string_agg(lock_id, ' ' ORDER BY lock_id) FROM public.said";
        let said = scene.database.psql(sql);
        scene.database.psql("TRUNCATE public.said");
        said
    };
    for mode in [Mode::Write, Mode::Read] {
        let asked = request("a", mode, PATIENCE);
        let lease = scene.store.acquire(&asked).await.unwrap();
        assert_eq!(said(), "1|audit dal_locks resources");
        scene.store.release(&lease.lease).await.unwrap();
        assert_eq!(said(), "1|audit dal_locks resources");
        let asked = request("a", mode, PATIENCE);
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
    // All statements are prepared.
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    let held = || scene.database.psql("SELECT count(*) FROM tenure.dal_locks");
    // No answer comes back, so whatever the first message does is all that is done.
    proxy.pause_answers();
    let asked = request("a", Mode::Write, PATIENCE);
    let acquire = store.acquire(&asked);
    let answer = async {
        crate::scene::until("it is granted without an answer", || held() == "1").await;
        proxy.resume();
    };
    let (lease, ()) = tokio::join!(acquire, answer);
    let lease = lease.unwrap();
    proxy.pause_answers();
    let answer = async {
        crate::scene::until("it is released without an answer", || held() == "0").await;
        proxy.resume();
    };
    let (released, ()) = tokio::join!(store.release(&lease.lease), answer);
    released.unwrap();
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
