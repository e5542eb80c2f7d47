//! What a command runs under.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use tenure_core::{LockContext, Result};

/// The time a command has to end by itself once what it runs under is lost.
pub const GRACE: Duration = Duration::from_secs(5);

/// What a command runs under: locks, a claim, or anything else that can be lost meanwhile.
pub trait Held {
    /// Resolves when it cannot be relied on any more. The command is ended then.
    fn distrusted(&self) -> impl Future<Output = Distrusted<'_>>;

    /// Returns true if the kernel must kill the command when we die: nothing else would end it
    /// before what it runs under is somebody else's.
    fn command_dies_with_us(&self) -> bool;

    /// Returns when the command must be dead because it is over by time then, unless it is renewed
    /// before. It is asked again and again.
    fn runs_out(&self) -> Option<RunsOut> {
        None
    }

    /// Returns the descriptors that keep it held for as long as the command has them open. They are
    /// asked for one by one, and only one of each file is kept.
    fn descriptors(&self) -> impl Iterator<Item = Result<OwnedFd>> {
        std::iter::empty()
    }

    /// Releases it after the command. Fails if it turns out that it was lost before.
    fn release(self, outcome: Outcome) -> impl Future<Output = Result<()>>;
}

/// Something held that is over by time unless it is renewed.
pub struct RunsOut {
    /// The lock or the claim.
    pub context: Box<LockContext>,
    /// The time when the command must be dead, in milliseconds since boot.
    pub kill_at_ms: u64,
}

/// What became of the command.
#[derive(Debug, Clone, Copy)]
pub enum Outcome {
    /// It could not be started.
    NotStarted,
    /// It ended while what it ran under was held.
    Ended(ExitStatus),
    /// It was told to end, because what it ran under could not be relied on.
    Lost,
}

/// Something held that cannot be relied on any more.
pub struct Distrusted<'a> {
    /// The lock or the claim.
    pub context: Box<LockContext>,
    /// The reason.
    pub reason: String,
    /// The time the command has to end by itself.
    pub grace: Duration,
    /// Resolves if the command must be killed before that.
    pub over: Pin<Box<dyn Future<Output = ()> + 'a>>,
}
