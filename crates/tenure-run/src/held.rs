//! The hold under which a command runs, and how it is lost.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use tenure_core::{LockContext, Result};

/// The time a command has to end by itself once what it runs under is lost.
pub const GRACE: Duration = Duration::from_secs(5);

/// A hold under which a command runs: locks, a claim, or anything else that can be lost meanwhile.
pub trait Held {
    /// Resolves when this cannot be relied on any more. The command is then ended.
    fn distrusted(&self) -> impl Future<Output = Distrusted<'_>>;

    /// Returns true if the kernel must kill the command when we die: nothing else would end it
    /// before another holder takes over.
    fn command_dies_with_us(&self) -> bool;

    /// Returns when the command must be dead because the hold is then over by time, unless it is
    /// renewed before. This is asked again and again.
    fn runs_out(&self) -> Option<RunsOut> {
        None
    }

    /// Returns the descriptors that keep this held for as long as the command has them open. They
    /// are asked for one by one, and only one of each file is kept.
    fn descriptors(&self) -> impl Iterator<Item = Result<OwnedFd>> {
        std::iter::empty()
    }

    /// Releases this after the command. Fails if it turns out that it was lost before.
    fn release(self, outcome: Outcome) -> impl Future<Output = Result<()>>;
}

/// A hold that is over by time unless it is renewed.
pub struct RunsOut {
    /// The lock or the claim, for errors.
    pub context: Box<LockContext>,
    /// The time when the command must be dead, in milliseconds since boot.
    pub kill_at_ms: u64,
}

/// The end of the command, which the release may depend on.
#[derive(Debug, Clone, Copy)]
pub enum Outcome {
    /// The command could not be started.
    NotStarted,
    /// The command ended while its hold was good.
    Ended(ExitStatus),
    /// The command was told to end, because its hold could not be relied on.
    Lost,
}

/// A hold that cannot be relied on any more.
pub struct Distrusted<'a> {
    /// The lock or the claim, for errors.
    pub context: Box<LockContext>,
    /// The reason why it cannot be relied on.
    pub reason: String,
    /// The time that the command has to end by itself.
    pub grace: Duration,
    /// Resolves if the command must be killed before the grace is over.
    pub over: Pin<Box<dyn Future<Output = ()> + 'a>>,
}
