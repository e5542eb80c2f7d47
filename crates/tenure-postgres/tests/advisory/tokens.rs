//! Tokens only go up.

use tenure_core::Token;
use tenure_postgres::{AdvisoryLocks, Settings};
use tenure_testkit::postgres::Cluster;

use crate::scene::{AGENT, PATIENCE, Scene};

async fn draw(scene: &Scene, id: i32) -> Token {
    let guard = scene.locks.lock(AGENT, id, PATIENCE).await.unwrap();
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
                let guard = locks.lock(AGENT, 1, PATIENCE).await.unwrap();
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
async fn a_shared_grant_carries_the_token_of_the_last_exclusive_one() {
    let scene = Scene::new().await;
    let none = scene.locks.lock_shared(AGENT, 1, PATIENCE).await.unwrap();
    assert_eq!(none.token(), Token::NONE);
    none.release().await.unwrap();
    let holder = scene.locks.lock(AGENT, 1, PATIENCE).await.unwrap();
    let token = holder.token();
    // A reader that began to wait before the token was drawn for the next holder.
    let locks = scene.locks.clone();
    let reader = tokio::spawn(async move { locks.lock_shared(AGENT, 1, PATIENCE).await });
    crate::scene::until("it waits", || scene.entries(false) == 1).await;
    holder.release().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    assert_eq!(reader.token(), token);
    reader.release().await.unwrap();
    assert!(draw(&scene, 1).await > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_do_not_go_back_after_a_restore_of_an_old_backup() {
    let scene = Scene::new().await;
    let old = draw(&scene, 1).await;
    scene
        .database
        .psql("CREATE TABLE public.backup AS SELECT * FROM tenure.advisory_tokens");
    for _ in 0..20 {
        draw(&scene, 1).await;
    }
    let last = draw(&scene, 1).await;
    scene.database.psql(
        "TRUNCATE tenure.advisory_tokens; INSERT INTO tenure.advisory_tokens SELECT * FROM public.backup",
    );
    let restored = draw(&scene, 1).await;
    assert!(old < last && last < restored);
    scene.database.psql("TRUNCATE tenure.advisory_tokens");
    assert!(draw(&scene, 1).await > restored);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_do_not_go_back_with_the_clock() {
    let scene = Scene::new().await;
    draw(&scene, 1).await;
    // As if the clock had been set back by an hour.
    scene
        .database
        .psql("UPDATE tenure.advisory_tokens SET last = last + 3600000000");
    let ahead = draw(&scene, 1).await;
    let next = draw(&scene, 1).await;
    assert_eq!(next.get(), ahead.get() + 1);
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
            let guard = locks.lock(AGENT, 1, PATIENCE).await.unwrap();
            guard.release().await.unwrap();
        }
    }
}
