//! Asking again under a key.

use tenure::{Class, Error, Mode};

use super::*;

#[tokio::test]
async fn asked_again_under_a_key_the_same_leases_come_back() {
    let database = Database::new().await;
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Read)]);
    let ana = session(&database.keeper, "ana").await;
    let first = lock_set(&ana, &wanted, &under("deploy 7")).await.unwrap();
    drop(ana);
    let keeper = database.again().await;
    let ana = session(&keeper, "ana").await;
    let again = lock_set(&ana, &wanted, &under("deploy 7")).await.unwrap();
    assert_eq!(again, first);
}

#[tokio::test]
async fn another_request_under_the_same_key_is_a_conflict_that_names_it() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let wanted = set(&[("a", Mode::Read)]);
    lock_set(&ana, &wanted, &under("k")).await.unwrap();
    let longer = under("k").with_ttl(Duration::from_secs(61));
    let bo = session(keeper, "ana").await;
    for (wanted, terms) in [
        (set(&[("b", Mode::Read)]), under("k")),
        (set(&[("a", Mode::Write)]), under("k")),
        (wanted, longer),
    ] {
        let error = lock_set(&bo, &wanted, &terms).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert!(error.to_string().contains("key k"), "{error}");
    }
    assert_eq!(held(keeper).await, ["name:a read"]);
}

#[tokio::test]
async fn leases_that_are_over_are_a_conflict_under_their_key() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Write)]);
    let leases = lock_set(&ana, &wanted, &under("k")).await.unwrap();
    keeper.release(&leases[0].lease, None).await.unwrap();
    let again = lock_set(&session(keeper, "ana").await, &wanted, &under("k")).await;
    let error = again.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert_eq!(held(keeper).await, ["name:b write"]);
}

#[tokio::test]
async fn every_owner_has_keys_of_its_own() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let (ana, bo) = (session(keeper, "ana").await, session(keeper, "bo").await);
    let first = lock_set(&ana, &set(&[("a", Mode::Read)]), &under("k")).await;
    let other = lock_set(&bo, &set(&[("a", Mode::Read)]), &under("k")).await;
    assert_ne!(first.unwrap()[0].lease, other.unwrap()[0].lease);
}

#[tokio::test]
async fn of_two_that_ask_at_once_one_takes_the_locks_and_both_get_them() {
    let database = Database::new().await;
    let other = database.again().await;
    for round in 0..10 {
        let name = format!("a{round}");
        let (wanted, terms) = (set(&[(&name, Mode::Write)]), under(&name));
        let (one, two) = (
            session(&database.keeper, "ana").await,
            session(&other, "ana").await,
        );
        let both = tokio::join!(
            lock_set(&one, &wanted, &terms),
            lock_set(&two, &wanted, &terms)
        );
        assert_eq!(both.0.unwrap(), both.1.unwrap());
    }
}

#[tokio::test]
async fn a_key_that_is_taken_is_waited_for_until_the_deadline() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let [bo, first, second] = ["bo", "ana", "ana"].map(|owner| session(keeper, owner));
    let (bo, first, second) = (bo.await, first.await, second.await);
    let guard = take(&bo, "a", Mode::Write).await;
    let (wanted, terms, patient) = (set(&[("a", Mode::Write)]), under("k"), patient());
    let task = {
        let (keeper, wanted, terms) = (keeper.clone(), wanted.clone(), terms.clone());
        let patient = patient.clone();
        tokio::spawn(async move { keeper.lock(&first, &wanted, &terms, &patient).await })
    };
    until("the first is in line", async || {
        waiting(keeper).await.len() == 1
    })
    .await;

    for millis in [0, 50] {
        let asked = keeper.lock(&second, &wanted, &terms, &wait(millis)).await;
        let error = asked.unwrap_err();
        assert_eq!(error.class(), Class::Busy, "{error}");
        assert_eq!(error.holders()[0].owner, *bo.owner());
    }
    assert_eq!(
        waiting(keeper).await.len(),
        1,
        "the second never stood in line"
    );
    let again = keeper.lock(&second, &wanted, &terms, &patient);
    let (again, ()) = tokio::join!(again, async { drop(guard) });
    assert_eq!(again.unwrap(), task.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_request_that_failed_frees_its_key() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let (ana, bo) = (session(keeper, "ana").await, session(keeper, "bo").await);
    let guard = take(&bo, "a", Mode::Write).await;
    let wanted = set(&[("a", Mode::Write)]);
    let asked = keeper.lock(&ana, &wanted, &under("k"), &wait(10)).await;
    assert_eq!(asked.unwrap_err().class(), Class::Busy);
    // The session is still there, and another one asks for something else under the key.
    let other = session(keeper, "ana").await;
    lock_set(&other, &set(&[("b", Mode::Write)]), &under("k"))
        .await
        .unwrap();
    drop((guard, ana));
}
