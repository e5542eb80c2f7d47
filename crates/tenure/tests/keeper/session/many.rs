//! Sets.

use std::time::Duration;

use tenure::{Error, Mode, Options, Ranking, Settings};
use tokio::time::Instant;

use crate::faulty_store::{FaultyStore, broken};
use crate::scene::*;

const ABC: [(&str, Mode); 3] = [("c", Mode::Write), ("a", Mode::Write), ("b", Mode::Read)];

#[tokio::test]
async fn a_set_is_taken_in_order() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    let guards = ana.acquire_many(&set(&ABC), &patient()).await.unwrap();
    let taken: Vec<_> = guards.iter().map(|guard| guard.resource()).collect();
    assert_eq!(taken, [&resource("a"), &resource("b"), &resource("c")]);
    assert_eq!(
        store.log(),
        ["acquire name:a", "acquire name:b", "acquire name:c"]
    );
}

#[tokio::test]
async fn the_order_is_the_keepers_whichever_ranking_made_the_set() {
    let settings = Settings::default().with_ranking(Ranking::new(["events".into(), "slot".into()]));
    let (store, keeper) = FaultyStore::default().keep_with(settings);
    let ana = session(&keeper, "ana").await;
    let by_default = set(&[("slot:x", Mode::Write), ("events:x", Mode::Write)]);
    let guards = ana.acquire_many(&by_default, &patient()).await;
    assert_eq!(
        store.log(),
        ["acquire events:x", "acquire slot:x"],
        "{guards:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_set_is_taken_whole_or_not_at_all() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&bo, "c", Mode::Read).await;
    let tried = ana.try_acquire_many(&set(&ABC), &patient()).await.unwrap();
    assert!(tried.is_none());
    assert_eq!(held(&keeper).await, ["name:c read"]);

    let error = ana.acquire_many(&set(&ABC), &wait(20)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(error.resource(), Some(&resource("c")));
    assert_eq!(error.holders(), [guard.lease()]);
    assert_eq!(held(&keeper).await, ["name:c read"]);
    assert!(waiting(&keeper).await.is_empty());

    drop(guard);
    let all = ana.try_acquire_many(&set(&ABC), &patient()).await.unwrap();
    assert_eq!(all.unwrap().len(), 3);
    assert_idle(&keeper).await;
}

#[tokio::test]
async fn what_was_taken_is_released_last_first() {
    let (store, keeper) = FaultyStore::default().keep();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&bo, "c", Mode::Read).await;
    let asking = {
        let ana = ana.clone();
        tokio::spawn(async move { ana.acquire_many(&set(&ABC), &patient()).await })
    };
    until("c is awaited", async || waiting(&keeper).await.len() == 1).await;
    let a = keeper.holders(&resource("a")).await.unwrap().remove(0);
    let b = keeper.holders(&resource("b")).await.unwrap().remove(0);
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    let log = store.log();
    let expected = [
        format!("abandon {}", b.lease),
        format!("abandon {}", a.lease),
    ];
    assert_eq!(log[log.len() - 2..], expected);
    drop(guard);
    assert_idle(&keeper).await;
}

#[tokio::test]
async fn an_error_in_the_middle_releases_what_was_taken() {
    let (store, keeper) = FaultyStore::default().keep();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _c = take(&bo, "c", Mode::Read).await;
    store.fail("acquire name:c", broken());
    let asked = ana.acquire_many(&set(&ABC), &patient()).await;
    assert!(matches!(asked, Err(Error::Io { .. })), "{asked:?}");
    assert_eq!(store.count("release"), 2);
    assert_eq!(held(&keeper).await, ["name:c read"]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_one_for_the_whole_set() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let (a, _b) = (
        take(&bo, "a", Mode::Write).await,
        take(&bo, "b", Mode::Write).await,
    );
    let began = Instant::now();
    let release = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        drop(a);
    };
    let abc = set(&ABC);
    let options = wait(1000);
    let (asked, ()) = tokio::join!(ana.acquire_many(&abc, &options), release);
    let error = asked.unwrap_err();
    assert_eq!(error.resource(), Some(&resource("b")));
    // Timers may round up by a millisecond.
    let (least, most) = (Duration::from_millis(1000), Duration::from_millis(1002));
    assert!((least..=most).contains(&began.elapsed()));
}

#[tokio::test]
async fn nothing_of_the_session_gets_between_the_locks_of_a_set() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&bo, "a", Mode::Read).await;
    let asking = {
        let ana = ana.clone();
        tokio::spawn(async move { ana.acquire_many(&set(&ABC), &patient()).await })
    };
    until("a is awaited", async || waiting(&keeper).await.len() == 1).await;
    let between = ana.acquire(&resource("bb"), Mode::Read, &patient()).await;
    assert!(
        matches!(&between, Err(Error::Order { held, .. }) if *held == resource("c")),
        "{between:?}"
    );
    let twice = ana.acquire(&resource("c"), Mode::Read, &patient()).await;
    assert!(matches!(twice, Err(Error::Reentry { .. })), "{twice:?}");
    drop(guard);
    assert_eq!(asking.await.unwrap().unwrap().len(), 3);
}

#[tokio::test]
async fn a_set_with_something_held_is_re_entry_and_takes_nothing() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let _b = take(&ana, "b", Mode::Read).await;
    let asked = ana.acquire_many(&set(&ABC), &patient()).await;
    assert!(
        matches!(&asked, Err(Error::Reentry { context, .. }) if context.resource == resource("b")),
        "{asked:?}"
    );
    assert_eq!(held(&keeper).await, ["name:b read"]);
}

#[tokio::test]
async fn an_empty_set_is_taken() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let taken = ana.acquire_many(&set(&[]), &Options::default()).await;
    assert!(taken.unwrap().is_empty());
}
