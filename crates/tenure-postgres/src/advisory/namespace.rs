//! The namespaces of advisory locks.

use std::fmt;

/// The first number of a pair: the kind of thing that the second one counts. Programs that share a
/// database agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(i32);

impl Namespace {
    /// The number is the id of an agent.
    pub const AGENT: Namespace = Namespace(1);
    /// The number is the id of a channel.
    pub const CHANNEL: Namespace = Namespace(2);

    /// Returns a namespace of the application's own.
    pub const fn new(number: i32) -> Namespace {
        Namespace(number)
    }

    /// Returns the number.
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
