//! A line of many waiters who died.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rusqlite::params;
use tenure::Mode;

use crate::scene::{Scene, session, take, try_take};

const DEAD: u32 = 500;

/// Puts sessions in line that look killed: each has a row, and a file that no process has locked.
fn line_up_the_dead(scene: &Scene) {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot_id = boot_id.trim();
    let mut connection = scene.raw();
    let lining_up = connection.transaction().unwrap();
    for number in 0..DEAD {
        let (lease, session) = (format!("lease-{number}"), format!("session-{number}"));
        let file = File::create(scene.path("sessions").join(&session)).unwrap();
        let file = file.metadata().unwrap();
        let sql = "INSERT INTO sessions \
            (session, device, inode, boot_id, pid, host, owner, started_at) \
            VALUES (?1, ?2, ?3, ?4, 1, 'here', 'zed', '2026-01-01T00:00:00.000Z')";
        let row = params![
            session,
            file.dev().cast_signed(),
            file.ino().cast_signed(),
            boot_id
        ];
        lining_up.execute(sql, row).unwrap();
        let sql = "INSERT INTO waiters (lock_id, resource, want, mode, session, holder_session, \
            owner, since, boot_id, pid, host, command) \
            VALUES (?1, 'name:a', 'lease', 'write', ?2, ?2, 'zed', '2026-01-01T00:00:00.000Z', \
            ?3, 1, 'here', 'make')";
        lining_up
            .execute(sql, params![lease, session, boot_id])
            .unwrap();
    }
    lining_up.commit().unwrap();
}

/// Returns the time of a release past the dead, after which none of them is left in the line.
async fn release_past_the_dead() -> Duration {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    line_up_the_dead(&scene);
    assert_eq!(scene.rows("waiters"), DEAD);
    let began = Instant::now();
    guard.release().await.unwrap();
    let took = began.elapsed();
    assert_eq!(scene.rows("waiters"), 0);
    assert!(try_take(&bo, "a", Mode::Write).await.is_some());
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_past_five_hundred_dead_waiters_takes_less_than_a_second() {
    // The best of three counts: the machine may have other things to do.
    let mut best = Duration::MAX;
    for _ in 0..3 {
        best = best.min(release_past_the_dead().await);
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
}
