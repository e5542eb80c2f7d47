//! Summaries: one thread makes the expensive call, the others do nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use tenure_postgres::patterns::once;
use tokio_postgres::Client;

use crate::scene::{Scene, Trouble};

const TURNS: &str = "CREATE TABLE turns (id int PRIMARY KEY, text text NOT NULL, summary text);
                     INSERT INTO turns VALUES (1, 'long text', null), (2, 'other', 'there')";

/// Summarises a turn and commits. The call is the expensive part.
async fn summarise(
    client: &mut Client,
    turn: i32,
    call: impl AsyncFnOnce(String) -> Result<String, Trouble>,
) -> Result<Option<String>, Trouble> {
    let mut transaction = client.transaction().await?;
    let summary = once(
        &mut transaction,
        "SELECT text, summary FROM turns WHERE id = $1",
        &[&turn],
        |row| row.get("summary"),
        async |row| call(row.get("text")).await,
    )
    .await?;
    // The transaction goes on, whatever the call returned.
    let write = "UPDATE turns SET summary = $2 WHERE id = $1 AND summary IS NULL";
    if let Some(summary) = &summary {
        transaction.execute(write, &[&turn, summary]).await?;
    }
    transaction.query_one("SELECT 1", &[]).await?;
    transaction.commit().await?;
    Ok(summary)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_summarise_at_once_the_second_gets_nothing_and_makes_no_call() {
    let scene = Scene::new(TURNS).await;
    let (mut one, mut two) = (scene.application().await, scene.application().await);
    let calls = AtomicU32::new(0);
    let first = summarise(&mut one, 1, async |text| {
        calls.fetch_add(1, Ordering::SeqCst);
        // The second request comes while the first makes its call.
        let second = summarise(&mut two, 1, async |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            Ok("never".into())
        });
        assert_eq!(second.await?, None);
        Ok(format!("short of {text}"))
    });
    let summary = first.await.unwrap();
    assert_eq!(summary.as_deref(), Some("short of long text"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let again = summarise(&mut two, 1, async |_| panic!("it called")).await;
    assert_eq!(again.unwrap(), summary, "what the first wrote");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_already_summarised_is_answered_without_a_call() {
    let scene = Scene::new(TURNS).await;
    let mut application = scene.application().await;
    let there = summarise(&mut application, 2, async |_| panic!("it called")).await;
    assert_eq!(there.unwrap().as_deref(), Some("there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_leaves_the_turn_for_the_next_one() {
    let scene = Scene::new(TURNS).await;
    let mut application = scene.application().await;
    let failed = summarise(&mut application, 1, async |_| Err(Trouble::Work("no"))).await;
    assert!(matches!(failed, Err(Trouble::Work("no"))), "{failed:?}");
    let next = summarise(&mut application, 1, async |_| Ok("short".into())).await;
    assert_eq!(next.unwrap().as_deref(), Some("short"));
    let none = summarise(&mut application, 99, async |_| panic!("it called")).await;
    assert_eq!(none.unwrap(), None, "there is no such turn");
}
