//! One step of a history.

use tenure::Mode;

/// A session, by its index among the players.
pub(super) type Who = usize;
/// A resource, by its place in the order.
pub(super) type What = usize;

/// One step of a history, by one session or by none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Take a lock if that needs no waiting.
    Try(Who, What, Mode),
    /// Take a set if that needs no waiting.
    TryMany(Who, Vec<(What, Mode)>),
    /// Take a lock: patiently if the model says that it is granted, else for a moment.
    Acquire(Who, What, Mode),
    /// Begin to wait for a lock that cannot be had now.
    Wait(Who, What, Mode),
    /// Upgrade if that needs no waiting.
    TryUpgrade(Who, What),
    /// Upgrade: patiently if the model says that it is granted, else for a moment.
    Upgrade(Who, What),
    /// Begin to wait for an upgrade that cannot be had now.
    WaitUpgrade(Who, What),
    /// Go back to upgradeable.
    Downgrade(Who, What),
    /// Release a lock.
    Release(Who, What),
    /// Drop what the session waits for.
    Cancel(Who),
    /// Kill the session.
    Crash(Who),
    /// Compare the list with the model.
    List,
}
