//! Who is told what a call waits for, and what people should know.

use std::time::Duration;

use crate::waiting::BlockedRequest;

/// Follows a call. A surface draws, streams or ignores what it is told.
pub trait Observer: Send + Sync {
    /// Something that people should know, in a sentence.
    fn word(&self, text: &str);

    /// A wait begins. Its observer is dropped when the wait is over.
    fn begin_wait(&self) -> Option<Box<dyn WaitObserver>>;

    /// A directory is copied from now on. Its observer is dropped when the copy is over. Without
    /// one nobody is told.
    fn begin_copy(&self) -> Option<Box<dyn CopyObserver>> {
        None
    }
}

/// Follows one wait.
pub trait WaitObserver: Send {
    /// Returns when it is told for the `told`-th time (from 0), counted from the beginning of the
    /// wait.
    fn when(&self, told: u32) -> Duration;

    /// The wait goes on: for this long, of that long.
    fn show(&mut self, blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration);
}

/// Follows one copy.
pub trait CopyObserver: Send {
    /// Returns when it is told for the `told`-th time (from 0), counted from the beginning.
    fn when(&self, told: u32) -> Duration;

    /// The copy goes on: this many files and bytes are copied.
    fn show(&mut self, files: u64, bytes: u64);
}

/// Ignores everything.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn word(&self, _: &str) {}

    fn begin_wait(&self) -> Option<Box<dyn WaitObserver>> {
        None
    }
}
