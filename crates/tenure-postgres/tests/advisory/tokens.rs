//! Tokens only go up.

use tenure_core::Token;
use tenure_postgres::advisory::{AdvisoryLocks, Settings};
use tenure_testkit::postgres::{self, Cluster};

use crate::scene::{AGENT, Scene, WAIT_MAX};

async fn draw(scene: &Scene, id: i32) -> Token {
    let guard = scene.locks.lock(AGENT, id, WAIT_MAX).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn every_exclusive_grant_draws_a_higher_token() {
    let scene = Scene::new().await;
    let mut last = Token::NONE;
    for _ in 0..50 {
        let token = draw(&scene, 1).await;
        assert!(token > last);
        last = token;
    }
    let guard = scene.locks.lock_or_skip(AGENT, 1).await.unwrap().unwrap();
    assert!(guard.token() > last);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_draws_a_higher_token_than_the_holder_before_it() {
    let scene = Scene::new().await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let locks = scene.locks.clone();
            tokio::spawn(async move {
                let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
                let token = guard.token();
                guard.release().await.unwrap();
                token
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(task.await.unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_grant_is_not_below_the_last_exclusive_one_and_below_the_next() {
    let scene = Scene::new().await;
    let holder = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let token = holder.token();
    // The reader began to wait before the token was drawn for the next holder.
    let locks = scene.locks.clone();
    let reader = tokio::spawn(async move { locks.lock_shared(AGENT, 1, WAIT_MAX).await });
    crate::scene::until("it waits", || scene.entries(false) == 1).await;
    let elsewhere = draw(&scene, 2).await;
    holder.release().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    assert!(reader.token() >= token && reader.token() >= elsewhere);
    let another = scene.locks.lock_shared(AGENT, 1, WAIT_MAX).await.unwrap();
    assert_eq!(another.token(), reader.token(), "readers draw nothing");
    another.release().await.unwrap();
    let last = reader.token();
    reader.release().await.unwrap();
    assert!(draw(&scene, 1).await > last);
}

/// A statement that writes a row uses up a transaction number, which a draw does only once in 32.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_writes_no_row() {
    let cluster = Cluster::with(&postgres::Settings::default());
    let database = cluster.database();
    let locks = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    let scene = Scene {
        locks: locks.unwrap(),
        database,
    };
    let next = || {
        let next = scene
            .database
            .psql("SELECT pg_snapshot_xmax(pg_current_snapshot())");
        next.trim().parse::<u64>().unwrap()
    };
    draw(&scene, 1).await;
    let before = next();
    for _ in 0..320 {
        draw(&scene, 1).await;
    }
    let taken = next() - before;
    assert!((5..100).contains(&taken), "{taken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_services_that_open_at_once_make_the_tables_once() {
    for _ in 0..5 {
        let database = Cluster::shared().database();
        let opening: Vec<_> = (0..8)
            .map(|_| {
                let url = database.url();
                tokio::spawn(async move { AdvisoryLocks::open(&url, Settings::default()).await })
            })
            .collect();
        for opened in opening {
            let locks = opened.await.unwrap().unwrap();
            let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
            guard.release().await.unwrap();
        }
    }
}
