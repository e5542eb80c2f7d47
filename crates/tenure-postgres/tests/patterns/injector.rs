//! The skill injector: it reads the agent anew before it looks whether the skill was injected.

use std::sync::atomic::{AtomicU32, Ordering};

use tenure_postgres::patterns::serialise;

use crate::scene::{AGENT, Scene, Trouble};

const AGENTS: &str = "CREATE TABLE agents (id int PRIMARY KEY, prompt_injected_at timestamptz);
                      INSERT INTO agents VALUES (1, null)";

#[tokio::test(flavor = "multi_thread")]
async fn an_injector_with_a_stale_record_refreshes_it_and_skips() {
    let scene = Scene::new(AGENTS).await;
    let application = &scene.application().await;
    let injected = &AtomicU32::new(0);
    let inject = async || {
        let work = async |_| {
            let read = "SELECT prompt_injected_at IS NULL FROM agents WHERE id = 1";
            let row = application.query_one(read, &[]).await?;
            if !row.get::<_, bool>(0) {
                return Ok::<_, Trouble>(None);
            }
            injected.fetch_add(1, Ordering::SeqCst);
            let write = "UPDATE agents SET prompt_injected_at = now() WHERE id = 1";
            application.execute(write, &[]).await?;
            Ok(Some(()))
        };
        serialise(&scene.locks.of(AGENT), 1, work).await.unwrap()
    };
    // Both begin with a record that says that nothing was injected.
    let both = tokio::join!(inject(), inject());
    assert_eq!(injected.load(Ordering::SeqCst), 1);
    assert_eq!(u32::from(both.0.is_some()) + u32::from(both.1.is_some()), 1);
    assert_eq!(inject().await, None);
    scene
        .database
        .psql("UPDATE agents SET prompt_injected_at = null");
    assert_eq!(inject().await, Some(()));
}
