//! Keys as other programs see them.

use tenure_core::Mode;
use tenure_postgres::advisory::{Key, Namespace};

use crate::scene::{SHORT, Scene, WAIT_MAX};

#[tokio::test(flavor = "multi_thread")]
async fn psql_holding_the_same_key_keeps_us_out() {
    let scene = Scene::new().await;
    let session = scene.locks.session();
    let build = Key::of_name("build");
    let keys = [
        (build, build.to_string()),
        (
            Key::named(Namespace::new(-5), "agent"),
            "-5, -1649234938".to_owned(),
        ),
        (
            Key::Pair(Namespace::CHANNEL, i32::MIN),
            "2, -2147483648".to_owned(),
        ),
    ];
    let mut psql = scene.database.session();
    for (key, numbers) in keys {
        psql.run(&format!("SELECT pg_advisory_lock({numbers})"));
        let skipped = session.try_acquire(key, Mode::Write).await.unwrap();
        assert!(skipped.is_none(), "{key}");
        psql.run(&format!("SELECT pg_advisory_unlock({numbers})"));
        let guard = session.acquire(key, Mode::Write, SHORT).await.unwrap();
        let taken = psql.run(&format!("SELECT pg_try_advisory_lock({numbers})"));
        assert_eq!(taken.trim(), "f", "{key}");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_and_a_number_never_meet() {
    let scene = Scene::new().await;
    let session = scene.locks.session();
    let pair = Key::Pair(Namespace::new(0), 7);
    let one = session.acquire(pair, Mode::Write, WAIT_MAX).await.unwrap();
    let two = session
        .acquire(Key::Name64(7), Mode::Write, SHORT)
        .await
        .unwrap();
    one.release().await.unwrap();
    two.release().await.unwrap();
}
