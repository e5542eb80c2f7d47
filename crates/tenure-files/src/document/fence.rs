//! Fencing at the write: a document does not take a write of an older holder of its lock.
//!
//! A write with an explicit token leaves store, resource and token in the document's note, durably,
//! before the document itself is replaced. *Crash between the two:* the token counts although its
//! content never came; that fences only older holders, who are fenced anyway.

use tenure_core::{Error, Resource, Result, Token};

use super::note::Fenced;
use super::path::Location;

/// The lock under which a document is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Which store the lock is in: its address, without user and password.
    pub store: String,
    /// The lock.
    pub resource: Resource,
    /// The token of the grant.
    pub token: Token,
    /// Whether the document may have been guarded by another lock before.
    pub rebind: bool,
}

impl Fence {
    /// What the document is to remember; an error if it remembers something that forbids this write.
    pub(super) fn admit(&self, last: Option<&Fenced>, location: &Location) -> Result<Fenced> {
        if let Some(last) = last {
            let same = last.store == self.store && last.resource == self.resource;
            if same && self.token < last.token {
                return Err(Error::Fenced {
                    path: location.path().to_owned(),
                    resource: self.resource.clone(),
                    token: self.token,
                    last: last.token,
                });
            }
            if !same && !self.rebind {
                return Err(self.other(last, location));
            }
        }
        Ok(Fenced {
            store: self.store.clone(),
            resource: self.resource.clone(),
            token: self.token,
        })
    }

    fn other(&self, last: &Fenced, location: &Location) -> Error {
        let shown = |store: &str, resource: &Resource, token| match last.store == self.store {
            true => format!("{resource}#{token}"),
            false => format!("{resource}#{token} of {store}"),
        };
        Error::OtherFence {
            path: location.path().to_owned(),
            last: shown(&last.store, &last.resource, last.token),
            asked: shown(&self.store, &self.resource, self.token),
        }
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
    fn rebinding_does_not_let_an_older_token_in() {
        let mut older = fence("s", "a", 6);
        older.rebind = true;
        let refused = after(&fence("s", "a", 7), &older).unwrap_err();
        assert_eq!(refused.class(), Class::NotAllowed);
    }
}
