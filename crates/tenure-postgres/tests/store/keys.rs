//! Keys and claims of processes that are no longer seen.

use std::time::{Duration, Instant};

use tenure_core::leases::{KeyState, Keyed, Recovery};
use tenure_core::{IdempotenceKey, Mode, Owner, Query, Store};

use crate::scene::{Asks, SHORT, Scene, WAIT_MAX, asker, open, request, take, timed, until};

fn keyed(key: &str) -> Keyed {
    Keyed {
        key: IdempotenceKey::parse(key).unwrap(),
        owner: Owner::parse("ana").unwrap(),
        request: "name:a=write 1000".into(),
        asker: asker("ana"),
    }
}

/// Does something as if no process had been seen for a minute. The processes live, and report every
/// few seconds, so their rows are set back again and again.
async fn in_silence<T>(scene: &Scene, future: impl Future<Output = T>) -> T {
    const SILENCE: &str =
        "UPDATE tenure.processes SET seen_at = clock_timestamp() - interval '1 minute'";
    let silence = async {
        loop {
            scene.database.psql(SILENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        biased;
        () = silence => unreachable!("it has no end"),
        done = future => done,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_taken_over_only_when_its_asker_is_not_seen_any_more() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    let (first, second) = (keyed("k"), keyed("k"));
    let state = scene.leases().begin_key(&first).await.unwrap();
    assert_eq!(state, KeyState::Yours);
    let leases = other.leases().unwrap();
    let taken = leases.begin_key(&second).await.unwrap();
    assert_eq!(taken, KeyState::Taken(first.asker.session.clone()));
    in_silence(&scene, async {
        let deadline = Instant::now() + WAIT_MAX;
        while leases.begin_key(&second).await.unwrap() != KeyState::Yours {
            assert!(Instant::now() < deadline, "it was never taken over");
        }
    })
    .await;
    // The first process was silent for too long, so it cannot complete a request under a key that
    // is another's.
    let lease = take(&scene.store, "a").await;
    let bound = scene.leases().bind(
        std::slice::from_ref(&lease.lease),
        Duration::from_secs(60),
        Some(&first),
    );
    let error = bound.await.unwrap_err();
    assert!(error.to_string().contains("not seen"), "{error}");
    let ids = [lease.lease.clone()];
    let bound = leases
        .bind(&ids, Duration::from_secs(60), Some(&second))
        .await;
    let bound = bound.unwrap();
    assert_eq!(
        leases.begin_key(&first).await.unwrap(),
        KeyState::Done(bound)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_yesterday_is_free_and_swept() {
    let scene = Scene::new().await;
    for number in 0..5 {
        let key = keyed(&format!("k{number}"));
        let state = scene.leases().begin_key(&key).await.unwrap();
        assert_eq!(state, KeyState::Yours);
    }
    scene
        .database
        .psql("UPDATE tenure.keys SET made_at = made_at - interval '25 hours'");
    let again = keyed("k1");
    assert_eq!(
        scene.leases().begin_key(&again).await.unwrap(),
        KeyState::Yours
    );
    assert_eq!(
        scene
            .database
            .psql("SELECT string_agg(key, ' ') FROM tenure.keys"),
        "k1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_take_a_key_at_once_do_not_both_have_it() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    for round in 0..30 {
        let keys = [keyed(&format!("k{round}")), keyed(&format!("k{round}"))];
        let (one, two) = tokio::join!(
            scene.leases().begin_key(&keys[0]),
            other.leases().unwrap().begin_key(&keys[1])
        );
        let states = [one.unwrap(), two.unwrap()];
        let mine = states.iter().filter(|state| **state == KeyState::Yours);
        assert_eq!(mine.count(), 1, "{round}: {states:?}");
    }
}

/// The key is there, and its asker is gone. Both processes find that, and one has to find that the
/// other was first.
#[tokio::test(flavor = "multi_thread")]
async fn two_that_take_over_a_key_at_once_do_not_both_have_it() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    let gone = open(&scene.database.url()).await.unwrap();
    for round in 0..30 {
        let key = || keyed(&format!("k{round}"));
        let dead = gone.leases().unwrap().begin_key(&key()).await.unwrap();
        assert_eq!(dead, KeyState::Yours);
        scene.database.psql(&format!(
            "UPDATE tenure.keys SET process = 'gone' WHERE key = 'k{round}'"
        ));
        let keys = [key(), key()];
        let (one, two) = tokio::join!(
            scene.leases().begin_key(&keys[0]),
            other.leases().unwrap().begin_key(&keys[1])
        );
        let states = [one.unwrap(), two.unwrap()];
        let mine = states.iter().filter(|state| **state == KeyState::Yours);
        assert_eq!(mine.count(), 1, "{round}: {states:?}");
    }
}

/// Holds up the commit of a transaction that takes a key, for as long as another session has the
/// lock that it asks for.
const SLOW_COMMIT: &str = "\
    CREATE FUNCTION public.wait_for_it() RETURNS trigger LANGUAGE plpgsql AS \
    'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(17686); RETURN NULL; END'; \
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON tenure.keys \
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wait_for_it()";

const IN_COMMIT: &str = "pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d ON d.oid = l.database \
    WHERE d.datname = pg_catalog.current_database() \
    AND l.locktype = 'advisory' AND l.objid = 17686 AND NOT l.granted";

/// The clean-up that gives the key up at once does not see it yet. Still, the key must not stay
/// when the commit comes after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_asking_is_dropped_in_its_commit_is_given_up() {
    let scene = Scene::new().await;
    scene.database.psql(SLOW_COMMIT);
    let mut barrier = scene.database.session();
    for taken_over in [false, true] {
        let key = keyed("k");
        if taken_over {
            let dead = keyed("k");
            let state = scene.leases().begin_key(&dead).await.unwrap();
            assert_eq!(state, KeyState::Yours);
            scene
                .database
                .psql("UPDATE tenure.keys SET process = 'gone'");
        }
        barrier.run("SELECT pg_advisory_lock(17686)");
        tokio::select! {
            state = scene.leases().begin_key(&key) => panic!("without its commit: {state:?}"),
            () = until("it commits", || scene.count(IN_COMMIT) == "1") => {}
        }
        assert_eq!(
            scene.count("tenure.keys"),
            if taken_over { "1" } else { "0" }
        );
        barrier.run("SELECT pg_advisory_unlock(17686)");
        until("its commit is over", || scene.count(IN_COMMIT) == "0").await;
        until("nobody has the key", || scene.count("tenure.keys") == "0").await;
    }
}

/// The guards end the leases that were bound, so the key must not stand for them.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_leases_are_dropped_in_the_commit_of_their_time_is_given_up() {
    let scene = Scene::new().await;
    let key = keyed("k");
    let state = scene.leases().begin_key(&key).await.unwrap();
    assert_eq!(state, KeyState::Yours);
    let lease = take(&scene.store, "a").await;
    scene.database.psql(SLOW_COMMIT);
    let mut barrier = scene.database.session();
    barrier.run("SELECT pg_advisory_lock(17686)");
    let ids = [lease.lease.clone()];
    tokio::select! {
        bound = scene.leases().bind(&ids, Duration::from_secs(60), Some(&key)) => panic!("{bound:?}"),
        () = until("it commits", || scene.count(IN_COMMIT) == "1") => {}
    }
    // A request that is dropped does both.
    let (release, forget) = (
        scene.store.release(&lease.lease),
        scene.leases().forget_key(&key),
    );
    let go_on = async { barrier.run("SELECT pg_advisory_unlock(17686)") };
    let (released, forgot, _) = tokio::join!(release, forget, go_on);
    released.unwrap();
    forgot.unwrap();
    until("nobody has the key", || scene.count("tenure.keys") == "0").await;
    assert_eq!(scene.count("tenure.dal_locks"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_ends_with_its_session_and_with_its_process() {
    let scene = Scene::with("?lease_ttl=1s").await;
    let worker = open(&scene.database.url()).await.unwrap();
    let recover = || async {
        let actor = Owner::parse("admin").unwrap();
        let found = scene.leases().recover(&actor, Recovery::Real, None).await;
        found.unwrap().leases
    };
    for by_silence in [false, true] {
        let lease = take(&scene.store, "a").await;
        let job = asker("job:7");
        let leases = worker.leases().unwrap();
        leases.claim(&lease.lease, "job:7", &job).await.unwrap();
        let stale = loop {
            let mut found = recover().await;
            if found.first().is_some_and(|found| found.heartbeat_old) {
                break found.remove(0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(stale.claimed_by.as_deref(), Some("job:7"));
        assert!(!stale.recovered, "{stale:?}");
        let asked = request("a", Mode::Read, SHORT);
        assert!(scene.store.try_acquire(&asked).await.unwrap().is_none());
        let (taken, waited) = match by_silence {
            true => in_silence(&scene, timed(take(&scene.store, "a"))).await,
            false => {
                worker.end_session(&job.session);
                timed(take(&scene.store, "a")).await
            }
        };
        // The claim ends at once: a silent process is believed to live three times as long as this.
        assert!(waited < WAIT_MAX / 3, "{waited:?}");
        scene.store.release(&taken.lease).await.unwrap();
        assert_eq!(
            scene
                .database
                .psql("SELECT count(*) FROM tenure.lease_claims"),
            "0"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_today_is_neither_free_nor_swept() {
    let scene = Scene::new().await;
    let young = keyed("k0");
    let state = scene.leases().begin_key(&young).await.unwrap();
    assert_eq!(state, KeyState::Yours);
    scene
        .database
        .psql("UPDATE tenure.keys SET made_at = made_at - interval '23 hours'");
    let state = scene.leases().begin_key(&keyed("k1")).await.unwrap();
    assert_eq!(state, KeyState::Yours);
    assert_eq!(scene.count("tenure.keys"), "2");
    assert_eq!(
        scene.leases().begin_key(&keyed("k0")).await.unwrap(),
        KeyState::Taken(young.asker.session.clone())
    );
}

/// Leases that were bound earlier keep their key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_names_other_leases_than_those_of_a_dropped_bind_stays() {
    let scene = Scene::new().await;
    let key = keyed("k");
    let state = scene.leases().begin_key(&key).await.unwrap();
    assert_eq!(state, KeyState::Yours);
    let (first, second) = (take(&scene.store, "a").await, take(&scene.store, "b").await);
    let minute = Duration::from_secs(60);
    let ids = [first.lease];
    let bound = scene.leases().bind(&ids, minute, Some(&key)).await.unwrap();
    let mut barrier = scene.database.session();
    barrier.run("BEGIN");
    barrier.run("SELECT 1 FROM tenure.resources WHERE resource = 'name:b' FOR UPDATE");
    let ids = [second.lease];
    let held_up =
        "pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    tokio::select! {
        bound = scene.leases().bind(&ids, minute, Some(&key)) => panic!("without its row: {bound:?}"),
        () = until("it is held up", || scene.count(held_up) == "1") => {}
    }
    barrier.run("COMMIT");
    // The list comes once all clean-up has ended.
    drop(scene.store.list(&Query::default()).await.unwrap());
    assert_eq!(
        scene.leases().begin_key(&key).await.unwrap(),
        KeyState::Done(bound)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_ends_with_the_release_of_its_lease_whoever_waits() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    for waiting in [None, Some(Mode::Write), Some(Mode::Read)] {
        let lease = take(&scene.store, "a").await;
        let job = asker("job:7");
        let claim = scene.leases().claim(&lease.lease, "job:7", &job);
        claim.await.unwrap();
        let asked = waiting.map(|mode| request("a", mode, WAIT_MAX));
        let next = async {
            match &asked {
                Some(asked) => Some(other.wait_for(asked).await.unwrap()),
                None => None,
            }
        };
        let release = async {
            let count = usize::from(asked.is_some());
            until("it waits", || scene.waiting() == count).await;
            assert_eq!(scene.count("tenure.lease_claims"), "1");
            scene.store.release(&lease.lease).await.unwrap();
        };
        let (next, ()) = tokio::join!(next, release);
        assert_eq!(scene.count("tenure.lease_claims"), "0", "{waiting:?}");
        if let Some(next) = next {
            other.release(&next.lease).await.unwrap();
        }
    }
}
