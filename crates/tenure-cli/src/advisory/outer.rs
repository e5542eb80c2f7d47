//! The advisory locks that this process runs under, as the runs around it say in `TENURE_ADVISORY`.
//!
//! A daemon that outlived its run still has the variable, but no longer the lock: the server is
//! asked whether the same connection still holds it.

use std::env;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use tenure::Result;
use tenure_postgres::advisory::{AdvisoryLocks, Guard, Key};

const VARIABLE: &str = "TENURE_ADVISORY";

/// An advisory lock of a run around this process.
#[derive(Serialize, Deserialize)]
struct OuterLock {
    /// The store, without a password.
    store: String,
    key: String,
    /// The process at the server that holds it.
    server_pid: i32,
}

fn outer_locks() -> Vec<OuterLock> {
    let text = env::var(VARIABLE).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns true if a run around this process holds the key.
pub async fn is_held_around(locks: &AdvisoryLocks, store: &str, key: Key) -> Result<bool> {
    let name = key.to_string();
    let mut outer = outer_locks();
    outer.retain(|outer| outer.store == store && outer.key == name);
    if outer.is_empty() {
        return Ok(false);
    }
    let listed = locks.list().await?.locks;
    let is_held = |outer: &OuterLock| {
        let mut held = listed.iter().filter(|lock| lock.granted);
        held.any(|lock| Key::of(lock) == key && lock.pid == outer.server_pid)
    };
    Ok(outer.iter().any(is_held))
}

/// Returns the variable for a command that runs under one lock more.
pub fn variable(guard: &Guard, store: &str, key: Key) -> (&'static str, OsString) {
    let mut outer = outer_locks();
    outer.push(OuterLock {
        store: store.to_owned(),
        key: key.to_string(),
        server_pid: guard.backend_pid(),
    });
    let text = serde_json::to_string(&outer).expect("text and numbers are JSON");
    (VARIABLE, text.into())
}
