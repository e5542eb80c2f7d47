//! The keys a session holds and asks for, so that it never waits for itself.
//!
//! A request counts from the moment it is made, not from its grant, so if two tasks of a session
//! ask for the same key at once, the second is refused. A request stops counting when its guard is
//! released or dropped.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tenure_core::LeaseId;
use tenure_core::internal::lock;

use super::Key;

/// Everything a session holds and asks for.
#[derive(Default)]
pub(super) struct HeldKeys {
    keys: Mutex<HashSet<Key>>,
}

/// One key held or asked for, until dropped.
pub(super) struct Reservation {
    held_keys: Arc<HeldKeys>,
    key: Key,
}

impl HeldKeys {
    /// Reserves a key. Returns `None` if it is reserved already.
    pub(super) fn reserve(self: &Arc<Self>, key: Key) -> Option<Reservation> {
        let mut keys = lock(&self.keys);
        keys.insert(key).then(|| Reservation {
            held_keys: Arc::clone(self),
            key,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.held_keys.keys).remove(&self.key);
    }
}

/// Returns the id that errors use for the grant of a key: a session has at most one.
pub(super) fn lease_id(key: Key) -> LeaseId {
    let bits = key.bits().cast_unsigned();
    LeaseId::parse(&format!("advisory-{}-{bits:016x}", key.form()))
        .expect("made of the characters and the length an id may have")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_entered_once_until_its_claim_ends() {
        let held_keys = Arc::new(HeldKeys::default());
        let reservation = held_keys.reserve(Key::Name64(1)).unwrap();
        assert!(held_keys.reserve(Key::Name64(1)).is_none());
        assert!(held_keys.reserve(Key::Name64(2)).is_some());
        drop(reservation);
        assert!(held_keys.reserve(Key::Name64(1)).is_some());
    }

    #[test]
    fn every_key_has_an_id() {
        for number in [0, -1, i64::MIN, i64::MAX] {
            assert!(lease_id(Key::Name64(number)).as_str().len() <= 64);
        }
    }
}
