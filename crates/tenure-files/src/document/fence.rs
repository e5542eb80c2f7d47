//! Fencing at the write: a document does not take a write of an older holder of its lock.
//!
//! A write with an explicit token leaves store, resource and token in the document's note, durably,
//! before the document itself is replaced. *Crash between the two:* the token counts although its
//! content was never written; that keeps out only older holders, which must be kept out anyway.
//!
//! A document cannot know whether the token it remembers was ever granted. `rebind` therefore sets
//! aside any fence, and then only the store, asked by the guard of the write, keeps older holders
//! out.

use super::DocumentError;
use tenure_core::{Resource, Result, Token};

use super::note::Fenced;
use super::path::Location;

/// The lock under which a document is written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fence {
    /// The address of the store of the lock, without user and password.
    pub store: String,
    /// The lock.
    pub resource: Resource,
    /// The token of the grant.
    pub token: Token,
    /// True to set aside the fence that the document remembers: another lock, or a higher token of
    /// this lock. That higher token was never granted if this token is the newest, so the guard of
    /// the write must ask the store whether it is.
    pub rebind: bool,
}

impl Fence {
    /// Returns the fence of a lock: the address of its store without user and password, the
    /// resource and the token.
    pub fn new(store: impl Into<String>, resource: Resource, token: Token) -> Self {
        let store = store.into();
        Self {
            store,
            resource,
            token,
            rebind: false,
        }
    }

    /// Sets aside the fence that the document remembers; see [`rebind`](Fence::rebind).
    #[must_use]
    pub fn rebinding(mut self) -> Self {
        self.rebind = true;
        self
    }

    /// Returns the fence that the document is to remember, or an error if the fence that it
    /// remembers forbids this write.
    pub(super) fn admit(&self, last: Option<&Fenced>, location: &Location) -> Result<Fenced> {
        let asked = Fenced {
            store: self.store.clone(),
            resource: self.resource.clone(),
            token: self.token,
        };
        if let Some(last) = last.filter(|last| !self.rebind && self.overrides(last)) {
            let path = location.path().to_owned();
            let refused = if self.is_of_the_lock_of(last) {
                DocumentError::Fenced {
                    path,
                    resource: asked.resource,
                    token: asked.token,
                    last: last.token,
                }
            } else {
                DocumentError::OtherFence {
                    path,
                    last: last.shown_beside(&asked),
                    asked: asked.shown_beside(last),
                }
            };
            return Err(refused.into());
        }
        Ok(asked)
    }

    /// Returns true if a document that remembers `last` takes this write only if it is rebound.
    pub(super) fn overrides(&self, last: &Fenced) -> bool {
        !self.is_of_the_lock_of(last) || self.token < last.token
    }

    fn is_of_the_lock_of(&self, last: &Fenced) -> bool {
        last.store == self.store && last.resource == self.resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Class;

    fn fence(store: &str, resource: &str, token: u64) -> Fence {
        Fence {
            store: store.into(),
            resource: Resource::parse(resource).unwrap(),
            token: Token::new(token).unwrap(),
            rebind: false,
        }
    }

    fn after(last: &Fence, next: &Fence) -> Result<Fenced> {
        let location = Location::at("/d/a.json".into()).unwrap();
        let last = last.admit(None, &location).unwrap();
        next.admit(Some(&last), &location)
    }

    #[test]
    fn the_same_and_a_higher_token_are_taken_and_an_older_one_is_not() {
        let last = fence("s", "a", 7);
        assert_eq!(after(&last, &last).unwrap().token.get(), 7);
        assert_eq!(after(&last, &fence("s", "a", 8)).unwrap().token.get(), 8);
        let refused = after(&last, &fence("s", "a", 6)).unwrap_err();
        assert_eq!(refused.class(), Class::NotAllowed);
    }

    #[test]
    fn another_lock_is_a_conflict_until_rebound() {
        let last = fence("s", "a", 7);
        for mut other in [fence("s", "b", 9), fence("t", "a", 9)] {
            let refused = after(&last, &other).unwrap_err();
            assert_eq!(refused.class(), Class::Conflict, "{refused}");
            other.rebind = true;
            assert_eq!(after(&last, &other).unwrap().store, other.store);
        }
    }

    #[test]
    fn rebinding_sets_aside_a_higher_token_of_the_same_lock() {
        let mut lower = fence("s", "a", 6);
        lower.rebind = true;
        let admitted = after(&fence("s", "a", 7), &lower).unwrap();
        assert_eq!(admitted.token.get(), 6);
    }
}
