//! The audit record while other transactions write it.

use tenure_core::Store;
use tenure_core::audit::AuditQuery;

use crate::scene::{Scene, take};

const LATE: &str = "INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor) \
    VALUES (clock_timestamp(), 'acquire', 'name:late', 'late', 1, 'o', 'o')";

/// An entry with a lower number that is committed later is on a later page, so a reader that reads
/// on misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_appears_late_is_not_missed_by_who_reads_on() {
    let scene = Scene::new().await;
    let turn = || async {
        let lease = take(&scene.store, "a").await;
        scene.store.release(&lease.lease).await.unwrap();
    };
    turn().await;
    let mut late = scene.database.session();
    late.run(&format!("BEGIN; {LATE}"));
    turn().await;
    turn().await;
    let query = AuditQuery::default().with_limit(4);
    let page = scene.leases().audit(&query).await.unwrap();
    let mut seen: Vec<_> = page
        .entries
        .iter()
        .map(|e| e.lease.as_ref().unwrap().to_string())
        .collect();
    assert!(page.next.is_some() && !seen.is_empty());
    late.run("COMMIT");
    let mut after = page.next;
    while let Some(cursor) = after {
        let query = query.clone().with_after(cursor);
        let page = scene.leases().audit(&query).await.unwrap();
        seen.extend(
            page.entries
                .iter()
                .map(|e| e.lease.as_ref().unwrap().to_string()),
        );
        after = page.next;
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert!(seen.contains(&"late".to_owned()), "{seen:?}");
}

/// Without a cursor every entry that is there is shown, whatever is under way.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_page_shows_all_there_is() {
    let scene = Scene::new().await;
    let mut late = scene.database.session();
    late.run(&format!("BEGIN; {LATE}"));
    let lease = take(&scene.store, "a").await;
    let page = scene.leases().audit(&AuditQuery::default()).await.unwrap();
    assert_eq!(page.next, None);
    assert_eq!(page.entries.len(), 1);
    assert_eq!(page.entries[0].lease.as_ref(), Some(&lease.lease));
    late.run("ROLLBACK");
}
