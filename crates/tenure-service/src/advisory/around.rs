//! The advisory locks that are held around a call.
//!
//! A surface is told of them. A daemon that outlived its run was told, too, but no longer has the
//! lock. So the server is asked whether the connection of the run still holds it.

use serde::{Deserialize, Serialize};
use tenure::Result;
use tenure_postgres::advisory::{AdvisoryLocks, Guard, Key};

/// An advisory lock that is held around a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OuterLock {
    /// The store, without a password.
    store: String,
    key: String,
    /// The process at the server that holds it.
    server_pid: i32,
}

impl OuterLock {
    pub(super) fn of(guard: &Guard, store: &str, key: Key) -> Self {
        Self {
            store: store.to_owned(),
            key: key.to_string(),
            server_pid: guard.backend_pid(),
        }
    }
}

/// Returns true if the key is held around the call.
pub(super) async fn is_held_around(
    around: &[OuterLock],
    locks: &AdvisoryLocks,
    store: &str,
    key: Key,
) -> Result<bool> {
    let name = key.to_string();
    let outer = around.iter();
    let mut outer = outer
        .filter(|outer| outer.store == store && outer.key == name)
        .peekable();
    if outer.peek().is_none() {
        return Ok(false);
    }
    let listed = locks.list().await?.locks;
    let is_held = |outer: &OuterLock| {
        let mut held = listed.iter().filter(|lock| lock.granted);
        held.any(|lock| Key::of(lock) == key && lock.pid == outer.server_pid)
    };
    Ok(outer.any(is_held))
}
