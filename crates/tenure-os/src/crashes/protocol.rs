//! The description of a protocol, from which its crashes can be tried.

use std::fmt::Debug;
use std::hash::Hash;
use std::path::Path;

use tenure_core::Result;

use super::Allowed;
use crate::disk::simulated::{ALL_MAX, SimulatedDisk, State};

/// A state that was seen and is not allowed.
pub type Violation = String;

/// Things on a disk, and the processes that work on them.
pub trait Protocol {
    /// One consistent look at all of it.
    type World: Clone + Eq + Hash + Debug;
    /// A process that works on a disk.
    type Process;

    /// Returns a process that works on a disk.
    fn process(&self, disk: &SimulatedDisk) -> Self::Process;

    /// Returns the number of ways in which a process may begin after a crash. Each is tried.
    fn beginnings(&self) -> usize {
        1
    }

    /// Returns the number of states after a power loss up to which all are tried; of more, the
    /// corners and a sample.
    fn states_max(&self) -> u128 {
        ALL_MAX
    }

    /// Returns the world that a process sees, which must be an allowed one.
    fn look(
        &self,
        process: &Self::Process,
        allowed: &Allowed<Self::World>,
        beginning: usize,
    ) -> Result<Self::World, Violation>;

    /// Does the work of the process that comes after a crash.
    fn recover(&self, process: &Self::Process, beginning: usize) -> Result<()>;

    /// Returns the world after that work.
    fn recovered(&self, world: &Self::World, beginning: usize) -> Self::World;

    /// Does the work of the last process, which finds everything in order and leaves it so.
    fn live_on(
        &self,
        process: &Self::Process,
        disk: &SimulatedDisk,
        world: &Self::World,
    ) -> Result<(), Violation>;

    /// Returns true if a process that failed must not leave this file behind.
    fn is_temporary(&self, path: &Path) -> bool;

    /// Returns a path as people are shown it.
    fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path
    }

    /// Returns what is wrong with a state besides what a process sees of it.
    fn examine(&self, _: &State) -> Result<(), Violation> {
        Ok(())
    }
}
