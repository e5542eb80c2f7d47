//! The memory store: fairness, tokens, listing.

use tenure::{Mode, Options, Owner, Query};

use crate::scene::*;

#[tokio::test]
async fn a_waiting_writer_is_not_overtaken_by_new_readers() {
    let keeper = keeper().await;
    let (ana, bo, cy) = (
        session(&keeper, "ana").await,
        session(&keeper, "bo").await,
        session(&keeper, "cy").await,
    );
    let reader = take(&ana, "a", Mode::Read).await;
    let writer = ask(&bo, "a", Mode::Write).await;
    let tried = cy.try_acquire(&resource("a"), Mode::Read, &wait(0)).await;
    assert!(tried.unwrap().is_none(), "overtakes the writer");
    let late = ask(&cy, "a", Mode::Read).await;
    drop(reader);
    let writer = writer.await.unwrap().unwrap();
    assert_eq!(held(&keeper).await, ["name:a write"]);
    assert_eq!(waiting(&keeper).await.len(), 1);
    drop(writer);
    drop(late.await.unwrap().unwrap());
}

#[tokio::test]
async fn readers_that_stand_together_enter_together() {
    let keeper = keeper().await;
    let writer = take(&session(&keeper, "w").await, "a", Mode::Write).await;
    let mut readers = Vec::new();
    for n in 0..5 {
        let reader = session(&keeper, &format!("r{n}")).await;
        readers.push(ask(&reader, "a", Mode::Read).await);
    }
    let next = ask(&session(&keeper, "w2").await, "a", Mode::Write).await;
    let last = ask(&session(&keeper, "r5").await, "a", Mode::Read).await;
    drop(writer);
    assert_eq!(held(&keeper).await, ["name:a read"; 5]);
    for reader in readers {
        drop(reader.await.unwrap().unwrap());
    }
    assert_eq!(held(&keeper).await, ["name:a write"]);
    drop(next.await.unwrap().unwrap());
    drop(last.await.unwrap().unwrap());
    assert_idle(&keeper).await;
}

#[tokio::test]
async fn writers_are_served_as_they_came() {
    let keeper = keeper().await;
    let first = take(&session(&keeper, "w").await, "a", Mode::Write).await;
    let mut tokens = vec![first.token()];
    let mut asking = Vec::new();
    for n in 0..5 {
        let writer = session(&keeper, &format!("w{n}")).await;
        asking.push(ask(&writer, "a", Mode::Write).await);
    }
    drop(first);
    for (n, writer) in asking.into_iter().enumerate() {
        let guard = writer.await.unwrap().unwrap();
        assert_eq!(guard.lease().owner.as_str(), format!("w{n}"));
        tokens.push(guard.token());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test]
async fn a_waiting_upgrade_goes_before_the_queue_and_lets_no_reader_in() {
    let keeper = keeper().await;
    let (ana, bo, cy, di) = (
        session(&keeper, "ana").await,
        session(&keeper, "bo").await,
        session(&keeper, "cy").await,
        session(&keeper, "di").await,
    );
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let reader = take(&bo, "a", Mode::Read).await;
    let writer = ask(&cy, "a", Mode::Write).await;
    let upgrading = tokio::spawn(async move {
        guard.upgrade(patient().wait).await.unwrap();
        guard
    });
    until("both wait", async || waiting(&keeper).await.len() == 2).await;
    let line = waiting(&keeper).await;
    let told: Vec<_> = line
        .iter()
        .map(|w| (w.owner.as_str(), w.reason.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("ana", "held for read by bo"),
            ("cy", "an upgrade is waiting")
        ]
    );
    assert_eq!(line[0].blocked_by, [reader.lease().lease]);
    let tried = di.try_acquire(&resource("a"), Mode::Read, &wait(0)).await;
    assert!(tried.unwrap().is_none());
    drop(reader);
    let guard = upgrading.await.unwrap();
    assert_eq!(held(&keeper).await, ["name:a write"]);
    assert_eq!(waiting(&keeper).await.len(), 1);
    drop(guard);
    drop(writer.await.unwrap().unwrap());
}

#[tokio::test]
async fn tokens_never_go_back_and_a_reader_carries_the_newest_of_its_resource() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let mut last = take(&ana, "a", Mode::Write).await.token();
    let mut newest = last;
    for other in ["b", "c", "a", "b", "a"] {
        let write = take(&ana, other, Mode::Write).await.token();
        assert!(write > last, "a write draws a new one");
        if other == "a" {
            newest = write;
        }
        assert_eq!(take(&ana, "a", Mode::Read).await.token(), newest);
        last = write;
    }
    let (one, two) = (session(&keeper, "r1").await, session(&keeper, "r2").await);
    let first = take(&one, "a", Mode::Read).await;
    drop(take(&ana, "z", Mode::Write).await);
    let second = take(&two, "a", Mode::Read).await;
    assert_eq!(
        first.token(),
        second.token(),
        "one resource has one current token"
    );
}

#[tokio::test]
async fn the_line_is_listed_with_places_reasons_and_who_is_in_the_way() {
    let keeper = keeper().await;
    let holder = take(&session(&keeper, "ana@desk").await, "a", Mode::Write).await;
    let first = ask(&session(&keeper, "bo").await, "a", Mode::Write).await;
    let second = ask(&session(&keeper, "cy").await, "a", Mode::Read).await;
    let third = ask(&session(&keeper, "di").await, "a", Mode::Read).await;
    let line = waiting(&keeper).await;
    let told: Vec<_> = line
        .iter()
        .map(|w| (w.position, w.owner.as_str(), w.reason.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (1, "bo", "held for write by ana@desk"),
            (2, "cy", "behind 1 other"),
            (3, "di", "behind 2 others"),
        ]
    );
    assert_eq!(line[0].blocked_by, [holder.lease().lease]);
    assert!(line[1].blocked_by.contains(&line[0].waiter));
    assert!(line[0].deadline.unwrap() > line[0].since);
    drop(holder);
    for asking in [first, second, third] {
        drop(asking.await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn pages_meet_everything_once_and_queries_narrow() {
    let keeper = keeper().await;
    let mut guards = Vec::new();
    for owner in ["ana", "bo", "cy"] {
        let session = session(&keeper, owner).await;
        for text in ["map:a", "map:b", "name:a"] {
            guards.push(take(&session, text, Mode::Read).await);
        }
    }
    let mut expected: Vec<_> = guards.iter().map(|g| g.lease()).collect();
    expected.sort_by_key(|lease| (lease.resource.clone(), lease.lease.clone()));

    let mut seen = Vec::new();
    let mut query = Query::default().with_limit(2);
    loop {
        let page = keeper.list(&query).await.unwrap();
        assert!(page.held.len() <= 2);
        seen.extend(page.held);
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    assert_eq!(seen, expected);

    let count = async |query: Query| keeper.list(&query).await.unwrap().held.len();
    assert_eq!(count(Query::default().with_prefix("map:")).await, 6);
    let owner = Owner::parse("bo").unwrap();
    assert_eq!(count(Query::default().with_owner(owner)).await, 3);
    assert_eq!(keeper.holders(&resource("a")).await.unwrap().len(), 3);
}

#[tokio::test]
async fn looking_makes_nothing_seem_busy() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    assert!(keeper.holders(&resource("a")).await.unwrap().is_empty());
    let taken = ana
        .try_acquire(&resource("a"), Mode::Write, &Options::default())
        .await;
    assert!(taken.unwrap().is_some());
}
