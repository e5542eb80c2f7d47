//! What a store's crate provides to be tested.

use std::any::Any;
use std::process::Command;

use tenure::{Keeper, Resource};

use crate::agent::process;

/// Makes stores of one kind.
pub trait Fixture: Sync {
    /// What the store is called in messages.
    fn name(&self) -> &'static str;

    /// A new store in which nothing is held.
    fn fresh(&self) -> Fresh;

    /// How a child process is started that takes locks in the store at `url`.
    fn child(&self, url: &str) -> Command {
        process::this_test_binary(url)
    }

    /// How many wait for a resource, as proved by something other than the clock.
    /// Asked only of stores that do not list their waiters themselves.
    fn waiters(&self, keeper: &Keeper, resource: &Resource) -> usize {
        let _ = (keeper, resource);
        panic!(
            "{} does not list its waiters and has no other proof of them",
            self.name()
        );
    }
}

/// A new store.
pub struct Fresh {
    /// Its address.
    pub url: String,
    /// Whatever must live as long as the store: a directory, a server.
    pub keep: Box<dyn Any + Send>,
}
