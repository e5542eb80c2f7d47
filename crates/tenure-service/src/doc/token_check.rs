//! Checks that the locks around a write are still held, by their tokens.
//!
//! A document remembers the token that a request names. This token, and those of the `run`s around
//! the caller, must be the newest that their stores granted; if that cannot be checked, nothing is
//! written. The check makes no store.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Mutex;

use tenure::blocking::Keeper;
use tenure::{Error, LockContext, Resource, Result, Settings, Token, shown_address};
use tenure_api::text::{Slot, TokenOf};
use tenure_core::internal::lock;
use tenure_lockfile::FileCaller;

use crate::store_identity::is_there;
use crate::{Caller, Service};

/// The action that errors of a store name.
pub const CHECK: &str = "check the token in";

/// The tokens under which a write is made.
pub(super) struct TokenCheck {
    /// The tokens, each with the address of its store and its resource.
    tokens: Vec<(String, Resource, Token)>,
    settings: Settings,
    /// The stores asked so far, by their addresses.
    stores: Mutex<HashMap<String, Keeper>>,
}

impl TokenCheck {
    /// Collects the tokens of the `run`s around the caller, and the token that the request names.
    /// Slots and pools are left out: they are no locks.
    pub(super) fn new(service: &Service, caller: &Caller, named: Option<&TokenOf>) -> Self {
        let outers = caller.around().leases.iter();
        let outers = outers.filter(|outer| !Slot::is_kind_of(&outer.lease.resource));
        let outers = outers.map(|outer| {
            let store = service.openable(&outer.store);
            (store, outer.lease.resource.clone(), outer.lease.token)
        });
        let named = named.map(|named| {
            let store = service.located().url.clone();
            (store, named.resource.clone(), named.token)
        });
        Self {
            tokens: outers.chain(named).collect(),
            settings: service.settings(caller),
            stores: Mutex::default(),
        }
    }

    /// Returns the check that is made before the work, and again before the write: it fails unless
    /// all tokens are good. Only the first check fails for a cancelled wait, too: work that has
    /// begun is finished.
    pub(super) fn guard<'a>(
        &'a self,
        caller: &'a FileCaller,
        first: &'a LockContext,
    ) -> impl Fn() -> Result<()> + 'a {
        let has_begun = Cell::new(false);
        move || match has_begun.replace(true) {
            false if caller.cancel.is_cancelled() => Err(first.interrupted()),
            _ => self.check(),
        }
    }

    /// Fails unless each token is the newest of its lock. Blocks the thread.
    fn check(&self) -> Result<()> {
        let mut tokens = self.tokens.iter();
        tokens.try_for_each(|(store, resource, token)| self.ask(store, resource, *token))
    }

    fn ask(&self, url: &str, resource: &Resource, token: Token) -> Result<()> {
        if !is_there(url) {
            let none = io::Error::new(io::ErrorKind::NotFound, "there is no store");
            return Err(Error::io(CHECK, shown_address(url), none));
        }
        let mut stores = lock(&self.stores);
        let keeper = match stores.entry(url.to_owned()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(missing) => {
                let keeper = Keeper::open_with(url, self.settings.clone())?;
                missing.insert(keeper)
            }
        };
        keeper.check(resource, token)
    }
}
