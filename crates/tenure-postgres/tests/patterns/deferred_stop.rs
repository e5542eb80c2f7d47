//! The deferred stop: it takes the lock after its wait, and reads anew before it changes anything.

use std::sync::Arc;

use tenure_postgres::advisory::DEFAULT_WAIT;
use tenure_postgres::patterns::serialise;
use tokio::sync::Notify;

use crate::scene::{AGENT, Scene, Trouble, until};

const COMMANDS: &str =
    "CREATE TABLE commands (agent int PRIMARY KEY, state text NOT NULL, by text);
                        INSERT INTO commands VALUES (1, 'PROCESSING')";
const COMPLETE: &str = "UPDATE commands SET state = 'COMPLETE', by = $1 WHERE agent = 1";

/// Completes the command after the wait, unless it is complete by then. Returns whether it did.
async fn deferred_stop(scene: &Scene, wait: impl Future<Output = ()>) -> bool {
    let application = &scene.application().await;
    let locks = scene.locks.of(AGENT);
    wait.await;
    let stopped = serialise(&locks, 1, |_| async move {
        let row = application
            .query_one("SELECT state FROM commands WHERE agent = 1", &[])
            .await?;
        let state: String = row.get(0);
        if state == "COMPLETE" {
            return Ok::<_, Trouble>(false);
        }
        assert_eq!(state, "PROCESSING");
        application.execute(COMPLETE, &[&"deferred stop"]).await?;
        Ok(true)
    });
    stopped.await.unwrap()
}

/// Completes an incomplete command as the end of the session does. Returns whether it did.
async fn session_end(scene: &Scene) -> bool {
    let application = scene.application().await;
    let locks = scene.locks.of(AGENT);
    let completed = serialise(&locks, 1, |_| async move {
        let completed = application
            .execute(
                &format!("{COMPLETE} AND state <> 'COMPLETE'"),
                &[&"session end"],
            )
            .await?;
        Ok::<_, Trouble>(completed == 1)
    });
    completed.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_stop_after_session_end_finds_the_command_complete_and_skips() {
    let scene = Arc::new(Scene::new(COMMANDS).await);
    let wake = Arc::new(Notify::new());
    let stop = {
        let (scene, wake) = (Arc::clone(&scene), Arc::clone(&wake));
        tokio::spawn(async move { deferred_stop(&scene, wake.notified()).await })
    };
    // The waiting stop holds nothing, so the end of the session goes ahead.
    assert!(session_end(&scene).await);
    assert!(!stop.is_finished());
    wake.notify_one();
    assert!(!stop.await.unwrap(), "it changed what was complete");
    let by = scene.database.psql("SELECT by FROM commands");
    assert_eq!(by, "session end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_stop_before_session_end_completes_and_session_end_finds_it_complete() {
    let scene = Scene::new(COMMANDS).await;
    assert!(deferred_stop(&scene, std::future::ready(())).await);
    assert!(!session_end(&scene).await);
    let by = scene.database.psql("SELECT by FROM commands");
    assert_eq!(by, "deferred stop");
}

/// The deferred stop also sees what is committed while it waits for the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_stop_that_waits_for_the_lock_reads_what_its_holder_wrote() {
    let scene = Arc::new(Scene::new(COMMANDS).await);
    let holder = scene.locks.lock(AGENT, 1, DEFAULT_WAIT).await.unwrap();
    let stop = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { deferred_stop(&scene, std::future::ready(())).await })
    };
    until("it waits", || scene.waiting() == 1).await;
    let done = "UPDATE commands SET state = 'COMPLETE', by = 'session end'";
    scene.database.psql(done);
    holder.release().await.unwrap();
    assert!(!stop.await.unwrap());
}
