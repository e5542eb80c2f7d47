//! The configuration file: read, merge and write under one lock.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure::patterns::edit_file;
use tenure_core::Error;
use tenure_files::document::Documents;
use tenure_lockfile::FileLocker;
use tenure_testkit::kernel_locks;

use crate::scene::until;

#[tokio::test(flavor = "multi_thread")]
async fn the_second_of_two_saves_waits_and_merges_into_what_the_first_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    fs::write(&path, r#"{"old": 1}"#).unwrap();
    let (inside, first_is_inside) = mpsc::channel();
    let (entered, second_entered) = mpsc::channel::<()>();
    let first = tokio::spawn(edit_file(
        path.clone(),
        json!({}),
        move |config: &mut Value| {
            inside.send(()).unwrap();
            // The second edit starts now, and is kept out.
            let came = second_entered.recv_timeout(Duration::from_millis(300));
            assert_eq!(came, Err(mpsc::RecvTimeoutError::Timeout));
            config["first"] = json!(true);
            Ok(())
        },
    ));
    first_is_inside.recv().unwrap();
    let second = tokio::spawn(edit_file(
        path.clone(),
        json!({}),
        move |config: &mut Value| {
            // The first edit, which listens, may be gone by then.
            let _ = entered.send(());
            let seen = config.clone();
            config["second"] = json!(true);
            Ok(seen)
        },
    ));
    first.await.unwrap().unwrap();
    let seen = second.await.unwrap().unwrap();
    assert_eq!(seen, json!({"old": 1, "first": true}));
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(written, json!({"old": 1, "first": true, "second": true}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_waits_for_another_program_with_flock_and_merges_into_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    fs::write(&path, r#"{"old": 1}"#).unwrap();
    let lock = Documents::lock_file(&path).unwrap();
    let mut other = Command::new("flock")
        .arg(&lock)
        .args([
            "sh",
            "-c",
            r#"echo locked; read go; printf '{"other": 2}' > "$0""#,
        ])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock is needed: install util-linux");
    let mut told = String::new();
    let mut output = std::io::BufReader::new(other.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut told).unwrap();
    assert_eq!(told, "locked\n");
    let save = tokio::spawn(edit_file(path.clone(), json!({}), |config: &mut Value| {
        config["ours"] = json!(3);
        Ok(config.clone())
    }));
    until("it waits", async || kernel_locks::waiters(&lock) == 1).await;
    other.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(other.wait().unwrap().success());
    assert_eq!(save.await.unwrap().unwrap(), json!({"other": 2, "ours": 3}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_is_dropped_while_it_waits_never_merges() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    fs::write(&path, r#"{"old": 1}"#).unwrap();
    let lock = Documents::lock_file(&path).unwrap();
    let locker = FileLocker::new(Duration::ZERO);
    let held = locker.lock_exclusive(&lock).unwrap();
    let save = tokio::spawn(edit_file(path.clone(), json!({}), |config: &mut Value| {
        config["ours"] = json!(3);
        Ok(())
    }));
    until("it waits", async || kernel_locks::waiters(&lock) == 1).await;
    let aborted = Instant::now();
    save.abort();
    assert!(save.await.unwrap_err().is_cancelled());
    until("nobody waits", async || kernel_locks::waiters(&lock) == 0).await;
    // An edit that is not dropped waits for longer.
    assert!(aborted.elapsed() < Duration::from_secs(10));
    drop(held);
    drop(locker.lock_exclusive(&lock).unwrap());
    let left: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(left, json!({"old": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_fails_leaves_the_file_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    let made = edit_file(path.clone(), json!({"n": 0}), |config: &mut Value| {
        config["n"] = json!(1);
        Ok(())
    });
    made.await.unwrap();
    let before = fs::read(&path).unwrap();
    let failed = edit_file(path.clone(), json!({}), |config: &mut Value| {
        config["n"] = json!(2);
        Err::<(), _>(Error::BadInput("no".into()))
    });
    assert!(matches!(failed.await, Err(Error::BadInput(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
}
