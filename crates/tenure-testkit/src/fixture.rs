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

    /// How many random histories are played if nobody asks for more.
    fn histories(&self) -> u32 {
        2000
    }

    /// How many cases of an area run at once, besides those that wait for time to pass: more than one where most of a case is
    /// waiting for a server.
    fn at_once(&self) -> usize {
        1
    }

    /// Lets the time of what guards of dead processes left in the store run out now, where it has a time: between the scenes of a
    /// case, and for the histories, which kill by the hundred. What really becomes of it, in its time, is what the cases show.
    fn outlive(&self, fresh: &Fresh, pids: &[u32]) {
        let _ = (fresh, pids);
    }

    /// Whether the store is at a server: what is dropped, and what the dead held, is free when the server has been told, a
    /// moment later.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether somebody is in the middle of a step, and holds up others for as long as it is stopped there.
    fn is_held_up(&self, fresh: &Fresh) -> bool {
        let _ = fresh;
        false
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
