//! What a session holds and asks for: it never waits for itself.
//!
//! A request counts from the moment it is made, not from its grant, so of two tasks of a session that ask for the
//! same at once the second is refused. It counts no longer when its guard is released or dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tenure_core::{LeaseId, Mode};

use super::Key;

/// Everything a session holds and asks for.
#[derive(Default)]
pub(super) struct Book {
    entries: Mutex<HashMap<Key, Mode>>,
}

/// One key held or asked for, until dropped.
pub(super) struct Claim {
    book: Arc<Book>,
    key: Key,
}

impl Book {
    /// Enters a key; None if it is there already, in whatever mode.
    pub(super) fn enter(self: &Arc<Self>, key: Key, mode: Mode) -> Option<Claim> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.contains_key(&key) {
            return None;
        }
        entries.insert(key, mode);
        Some(Claim {
            book: Arc::clone(self),
            key,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let entries = self.book.entries.lock();
        entries
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
    }
}

/// What errors call the grant of a key: a session has at most one.
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
        let book = Arc::new(Book::default());
        let claim = book.enter(Key::Name64(1), Mode::Write).unwrap();
        assert!(book.enter(Key::Name64(1), Mode::Read).is_none());
        assert!(book.enter(Key::Name64(2), Mode::Write).is_some());
        drop(claim);
        assert!(book.enter(Key::Name64(1), Mode::Read).is_some());
    }

    #[test]
    fn every_key_has_an_id() {
        for number in [0, -1, i64::MIN, i64::MAX] {
            assert!(lease_id(Key::Name64(number)).as_str().len() <= 64);
        }
    }
}
