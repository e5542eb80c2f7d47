//! Checks that the locks around a write are still held, by their tokens.
//!
//! A token that was named is remembered by the document. It, and the tokens of the `run`s around this
//! command, must be the newest that their stores granted: what cannot be checked is not written.
//! Asking makes no store.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::Path;

use tenure::blocking::Keeper;
use tenure::{Error, Resource, Result, Token, shown_address};
use tenure_files::document::Fence;

use crate::cli::{Global, Slot, TokenOf, WriteTerms};
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::surface::outers;
use tenure_service::around::Outer;
use tenure_service::store_identity::{identity, is_there};

/// The tokens a write is made under.
pub struct TokenCheck<'a> {
    context: &'a Context,
    named: Option<&'a TokenOf>,
    outers: Vec<Outer>,
    /// The stores asked so far, by their addresses.
    stores: RefCell<HashMap<String, Keeper>>,
}

/// The action that errors of a store name.
pub const CHECK: &str = "check the token in";

/// Returns the settings; the store is chosen only if it is needed for a token that was named.
pub fn context(global: &Global, terms: &WriteTerms) -> Result<Context> {
    match terms.token {
        Some(_) => Context::new(global),
        None => Context::without_store(),
    }
}

impl<'a> TokenCheck<'a> {
    /// Collects the token that was named and those of the `run`s around this command. Slots are no
    /// locks.
    pub fn new(context: &'a Context, named: Option<&'a TokenOf>) -> Result<Self> {
        let mut outers = outers()?.leases;
        outers.retain(|outer| outer.lease.resource.kind() != Slot::KIND);
        Ok(Self {
            context,
            named,
            outers,
            stores: RefCell::default(),
        })
    }

    /// Returns what the document is to remember.
    pub fn fence(&self, rebind: bool) -> Option<Fence> {
        self.named.map(|named| {
            let store = identity(&self.context.located.url);
            let fence = Fence::new(store, named.resource.clone(), named.token);
            if rebind { fence.rebinding() } else { fence }
        })
    }

    /// Reports the token that a document remembered and that the one named overrides.
    pub fn tell_overridden(&self, document: &Path, remembered: &str) {
        if let Some(TokenOf { resource, token }) = self.named {
            let document = document.display();
            word(&format!(
                "{document} was guarded by {remembered}, which {resource}#{token} overrides now"
            ));
        }
    }

    /// Fails unless all of them are the newest of their locks.
    pub fn check(&self) -> Result<()> {
        for outer in &self.outers {
            let store = self.context.openable(&outer.store);
            self.ask(&store, &outer.lease.resource, outer.lease.token)?;
        }
        match self.named {
            Some(TokenOf { resource, token }) => {
                self.ask(&self.context.located.url, resource, *token)
            }
            None => Ok(()),
        }
    }

    fn ask(&self, url: &str, resource: &Resource, token: Token) -> Result<()> {
        if !is_there(url) {
            let none = io::Error::new(io::ErrorKind::NotFound, "there is no store");
            return Err(Error::io(CHECK, shown_address(url), none));
        }
        let mut stores = self.stores.borrow_mut();
        let keeper = match stores.entry(url.to_owned()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(missing) => {
                let settings = self.context.settings(WAIT_DEFAULT);
                missing.insert(Keeper::open_with(url, settings)?)
            }
        };
        keeper.check(resource, token)
    }
}
