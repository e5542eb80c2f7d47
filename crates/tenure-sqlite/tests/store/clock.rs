//! A waiter whose wall clock is set while it waits.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tenure::{Mode, SessionId};
use tenure_testkit::agent::Agent;

use crate::scene::{Scene, session, take, until, until_in_line, waiting};

const HOUR_MS: i64 = 3_600_000;

/// Starts a process whose clock is off, at every moment, by what a file says.
fn process_with_clock(scene: &Scene, owner: &str, offset: &Path) -> Agent {
    fs::write(offset, "+0").unwrap();
    // The command `faketime` knows the path of its library.
    let library = Command::new("faketime")
        .args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"])
        .output()
        .unwrap();
    assert!(library.status.success(), "{library:?}");
    let library = String::from_utf8(library.stdout).unwrap();
    let mut command = scene.process_command();
    command
        .env("LD_PRELOAD", library.trim())
        .env("FAKETIME_TIMESTAMP_FILE", offset)
        .env("FAKETIME_NO_CACHE", "1")
        // Only the wall clock can be set.
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Agent::process(command, owner)
}

/// Makes a waiter look, and returns when it has looked: it hears the second call only after the
/// look that follows the first.
async fn make_look(scene: &Scene, waiter: &SessionId) {
    let pipe = scene.path("wake").join(waiter.as_str());
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(pipe)
        .unwrap();
    for _ in 0..2 {
        pipe.write_all(&[1]).unwrap();
        until("the call is heard", async || {
            rustix::io::ioctl_fionread(&pipe).unwrap() == 0
        })
        .await;
    }
}

async fn assert_stays_in_line(jump: &str, jump_ms: i64) {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    let offset = scene.path("offset");
    let mut bo = process_with_clock(&scene, "bo", &offset);
    let mut cy = scene.process("cy");
    // The waiter waits for ten minutes, less than the clock jumps.
    let first = bo.want("a", Mode::Write);
    until_in_line(&keeper, "bo").await;
    let second = cy.want("a", Mode::Write);
    until_in_line(&keeper, "cy").await;
    let before = waiting(&keeper).await;
    fs::write(&offset, jump).unwrap();
    make_look(&scene, bo.session()).await;
    assert_eq!(waiting(&keeper).await, before);
    let released_at = tenure::clock::now();
    guard.release().await.unwrap();
    let lease = bo.granted(first);
    // The heartbeat of the grant shows the waiter's own clock.
    let off = lease.heartbeat_at.as_millis() - released_at.as_millis();
    assert!((off - jump_ms).abs() < HOUR_MS, "its clock is {off} ms off");
    assert!(cy.answered(second).is_none());
    bo.release("a");
    cy.granted(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_clock_is_set_two_hours_ahead_stays_in_line() {
    assert_stays_in_line("+2h", 2 * HOUR_MS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_clock_is_set_two_hours_back_stays_in_line() {
    assert_stays_in_line("-2h", -2 * HOUR_MS).await;
}
