//! Whether the locks around a write are still held, as far as their tokens tell.
//!
//! A token that was named is remembered by the document, and checked in the store where that is
//! there; the document's own memory fences where it is not. The tokens of the `run`s around this
//! command are checked in their stores, which must be there. Asking makes no store.

use std::cell::{Cell, RefCell};
use std::io;

use tenure::{Class, Error, Keeper, Resource, Result, Token, shown_address};
use tenure_files::Fence;
use tokio::runtime::Runtime;

use crate::cli::{Global, Slot, TokenOf, WriteTerms};
use crate::context::{Context, WAIT_DEFAULT};
use crate::identity::{identity, is_there};
use crate::nesting::{self, Outer};
use crate::report::word;
use crate::runtime;

/// The tokens a write is made under.
pub struct Tokens<'a> {
    context: &'a Context,
    named: Option<&'a TokenOf>,
    outers: Vec<Outer>,
    stores: RefCell<Stores>,
    /// Whether it was told that the one named could not be checked.
    told: Cell<bool>,
}

/// The stores asked so far. They are closed before the runtime they need.
#[derive(Default)]
struct Stores {
    open: Vec<(String, Keeper)>,
    runtime: Option<Runtime>,
}

/// The settings; the store is chosen only if it is needed for a token that was named.
pub fn context(global: &Global, terms: &WriteTerms) -> Result<Context> {
    match terms.token {
        Some(_) => Context::new(global),
        None => Context::without_store(),
    }
}

impl<'a> Tokens<'a> {
    /// The one named, and those of the `run`s around this command. Slots are no locks.
    pub fn new(context: &'a Context, named: Option<&'a TokenOf>) -> Result<Self> {
        let mut outers = nesting::outers()?.leases;
        outers.retain(|outer| outer.lease.resource.kind() != Slot::KIND);
        Ok(Self {
            context,
            named,
            outers,
            stores: RefCell::default(),
            told: Cell::new(false),
        })
    }

    /// What the document is to remember.
    pub fn fence(&self, rebind: bool) -> Option<Fence> {
        self.named.map(|named| Fence {
            store: identity(&self.context.located.url),
            resource: named.resource.clone(),
            token: named.token,
            rebind,
        })
    }

    /// Fails if one of them is fenced.
    pub fn check(&self) -> Result<()> {
        for outer in &self.outers {
            let store = self.context.openable(&outer.store);
            self.ask(&store, &outer.lease.resource, outer.lease.token)?;
        }
        let Some(TokenOf { resource, token }) = self.named else {
            return Ok(());
        };
        match self.ask(&self.context.located.url, resource, *token) {
            Err(error) if error.class() == Class::Unreachable => {
                if !self.told.replace(true) {
                    word(&format!(
                        "token {token} of {resource} is not checked: {error}"
                    ));
                }
                Ok(())
            }
            answer => answer,
        }
    }

    fn ask(&self, url: &str, resource: &Resource, token: Token) -> Result<()> {
        let mut stores = self.stores.borrow_mut();
        let Stores { open, runtime } = &mut *stores;
        if !is_there(url) {
            let none = io::Error::new(io::ErrorKind::NotFound, "there is no store");
            return Err(Error::io("check the token in", shown_address(url), none));
        }
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => runtime.insert(runtime::start()?),
        };
        let known = open.iter().position(|(known, _)| known == url);
        let keeper = match known {
            Some(at) => &open[at].1,
            None => {
                let settings = self.context.settings(WAIT_DEFAULT);
                let keeper = runtime.block_on(Keeper::open_with(url, settings))?;
                open.push((url.to_owned(), keeper));
                &open[open.len() - 1].1
            }
        };
        runtime.block_on(keeper.check(resource, token))
    }
}
