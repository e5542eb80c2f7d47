use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use super::*;

const SOON: Duration = Duration::from_secs(10);

fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

#[tokio::test]
async fn who_listens_is_woken_once_for_all_that_was_said() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("wake");
    let listening = Wake::listen(&directory, &id("s")).unwrap();
    for _ in 0..3 {
        wake(&directory, &id("s"));
    }
    timeout(SOON, listening.notified()).await.unwrap().unwrap();
    let again = timeout(Duration::from_millis(20), listening.notified()).await;
    assert!(again.is_err(), "it was woken by nobody");
    let (notified, ()) = tokio::join!(timeout(SOON, listening.notified()), async {
        tokio::task::yield_now().await;
        wake(&directory, &id("s"));
    });
    notified.unwrap().unwrap();
}

#[tokio::test]
async fn more_wake_ups_than_fit_are_one() {
    let root = tempfile::tempdir().unwrap();
    let listening = Wake::listen(root.path(), &id("s")).unwrap();
    for _ in 0..70_000 {
        wake(root.path(), &id("s"));
    }
    timeout(SOON, listening.notified()).await.unwrap().unwrap();
}

#[tokio::test]
async fn waking_one_who_does_not_listen_does_nothing() {
    let root = tempfile::tempdir().unwrap();
    wake(root.path(), &id("nobody"));
    let listening = Wake::listen(root.path(), &id("s")).unwrap();
    let path = root.path().join("s");
    assert!(path.exists());
    drop(listening);
    wake(root.path(), &id("s"));
    remove(root.path(), &id("s"));
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    wake(root.path(), &id("s"));
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    assert!(Wake::listen(root.path(), &id("s")).is_err());
}

#[tokio::test]
async fn what_a_crash_left_is_listened_to_again() {
    let root = tempfile::tempdir().unwrap();
    std::mem::forget(Wake::listen(root.path(), &id("s")).unwrap());
    let listening = Wake::listen(root.path(), &id("s")).unwrap();
    wake(root.path(), &id("s"));
    timeout(SOON, listening.notified()).await.unwrap().unwrap();
    remove(root.path(), &id("s"));
    assert!(!root.path().join("s").exists());
}

#[tokio::test]
async fn the_end_of_a_process_is_heard() {
    let mut child = Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let death = Death::watch(child.id());
    let early = timeout(Duration::from_millis(20), death.died()).await;
    assert!(early.is_err(), "it is still alive");
    drop(child.stdin.take());
    timeout(SOON, death.died()).await.unwrap();
    child.wait().unwrap();
    let nobody = Death::watch(child.id());
    assert!(
        timeout(Duration::from_millis(20), nobody.died())
            .await
            .is_err()
    );
}
