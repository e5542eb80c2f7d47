//! The things that the crate of a store provides for its tests.

use std::any::Any;
use std::process::Command;

use tenure::{Keeper, Resource};

use crate::agent::process;

/// Makes stores of one kind.
pub trait Fixture: Sync {
    /// The name of the store in messages.
    fn name(&self) -> &'static str;

    /// Makes a new store in which nothing is held.
    fn fresh(&self) -> Fresh;

    /// Returns the command of a child process that takes locks in the store at `url`.
    fn child(&self, url: &str) -> Command {
        process::this_test_binary(url)
    }

    /// Returns the number of random histories that are played by default.
    fn histories(&self) -> u32 {
        2000
    }

    /// Returns the number of cases of an area that run at once, besides those that wait for time to
    /// pass. It is more than one for stores whose cases mostly wait for a server.
    fn at_once(&self) -> usize {
        1
    }

    /// Makes the leases that guards of dead processes left in the store expire now. It is called
    /// between the parts of a case, and by the histories, which kill hundreds of processes. The
    /// cases themselves test the expiry in real time.
    fn outlive(&self, fresh: &Fresh, pids: &[u32]) {
        let _ = (fresh, pids);
    }

    /// Returns true if a stopped process is in the middle of a step and blocks the others.
    fn is_held_up(&self, fresh: &Fresh) -> bool {
        let _ = fresh;
        false
    }

    /// Returns the number of waiters for a resource, proved by something other than the clock. It
    /// is called only for stores that do not list their waiters.
    fn waiters(&self, keeper: &Keeper, resource: &Resource) -> usize {
        let _ = (keeper, resource);
        panic!(
            "{} does not list its waiters and has no other proof of them",
            self.name()
        );
    }
}

/// A store that was made for one test.
pub struct Fresh {
    /// The address of the store.
    pub url: String,
    /// The things that must live as long as the store: a directory, a server.
    pub keep: Box<dyn Any + Send>,
}
