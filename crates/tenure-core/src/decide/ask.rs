//! Requests to a resource, and their outcomes.

use super::Millis;
use crate::{Error, LeaseId, LockContext, Mode, SessionId};

/// Whether a request waits, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Do not wait: the outcome is busy.
    No,
    /// Wait, at most until then.
    Until(Millis),
}

impl Wait {
    /// Returns the deadline, or `None` if there is no time to wait.
    pub(super) fn deadline(self, now: Millis) -> Option<Millis> {
        match self {
            Wait::Until(deadline) if deadline > now => Some(deadline),
            _ => None,
        }
    }
}

/// A request to one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A new lease.
    Acquire {
        /// The id of the lease, and of the waiter until it is granted.
        lease: LeaseId,
        /// The session that asks.
        session: SessionId,
        /// The mode to hold it in.
        mode: Mode,
        /// How many may hold the resource at once, for this request; `None` if the modes decide.
        capacity: Option<u32>,
        /// Whether to wait.
        wait: Wait,
    },
    /// A waiter accepts its offer.
    Accept {
        /// The lease.
        lease: LeaseId,
    },
    /// A lease becomes lease-bound, because its set is complete. Its time starts now.
    Bind {
        /// The lease.
        lease: LeaseId,
        /// Its time to live.
        ttl: Millis,
        /// The grace period: how old its heartbeat may get.
        grace: Millis,
    },
    /// A lease-bound lease gets new time, also if it has expired and is still there.
    Renew {
        /// The lease.
        lease: LeaseId,
        /// Its time to live, from now.
        ttl: Millis,
        /// The grace period: how old its heartbeat may get.
        grace: Millis,
    },
    /// An upgradeable lease is to become write.
    Upgrade {
        /// The lease.
        lease: LeaseId,
        /// Whether to wait.
        wait: Wait,
    },
    /// An upgraded lease is to become upgradeable again.
    Downgrade {
        /// The lease.
        lease: LeaseId,
    },
    /// A lease ends. For one that is being broken this confirms that its holder stopped.
    Release {
        /// The lease.
        lease: LeaseId,
    },
    /// A waiter gives up.
    Withdraw {
        /// The id of its future lease, or of the lease to upgrade.
        lease: LeaseId,
    },
    /// A person breaks a lease.
    Break {
        /// The lease.
        lease: LeaseId,
    },
    /// No request, but time has passed or a session died.
    Look,
}

impl Ask {
    /// Returns the lease that the request is about.
    pub(super) fn lease(&self) -> Option<&LeaseId> {
        match self {
            Ask::Acquire { lease, .. }
            | Ask::Accept { lease }
            | Ask::Bind { lease, .. }
            | Ask::Renew { lease, .. }
            | Ask::Upgrade { lease, .. }
            | Ask::Downgrade { lease }
            | Ask::Release { lease }
            | Ask::Withdraw { lease }
            | Ask::Break { lease } => Some(lease),
            Ask::Look => None,
        }
    }
}

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is held as asked.
    Granted,
    /// The request waits in line.
    Queued,
    /// The request would have to wait.
    Busy,
    /// The request had its effect.
    Done,
    /// The request does not fit the state.
    Refused(Refusal),
}

/// Why a request does not fit the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session holds or waits for the resource already.
    Reentry,
    /// There is no such lease.
    NotHeld,
    /// The lease is read; only an upgradeable one can be upgraded.
    NotUpgradeable,
    /// The lease is write already.
    AlreadyWrite,
    /// The lease was never upgraded, so it cannot be downgraded.
    NeverUpgraded,
    /// There is no such waiter.
    NotWaiting,
    /// The time of the lease is over. It has to be renewed before it can be upgraded.
    Expired,
    /// A person is breaking the lease.
    Revoked,
    /// The lease ends with its session and has no time to renew.
    NotLeaseBound,
}

impl Refusal {
    /// Returns the error for a caller that wanted to change the mode of a lease.
    pub fn of_mode(self, lease: &LeaseId, context: Box<LockContext>) -> Error {
        let conflict = |expected: &str, actual: &str| Error::Conflict {
            context,
            expected: expected.into(),
            actual: actual.into(),
        };
        let over = |reason: &str| Error::LeaseOver {
            lease: lease.clone(),
            reason: reason.into(),
        };
        match self {
            Refusal::NotUpgradeable => conflict("an upgradeable lease", "read"),
            Refusal::AlreadyWrite => conflict("an upgradeable lease", "write"),
            Refusal::NeverUpgraded => conflict("an upgraded lease", "as it was taken"),
            Refusal::Reentry => conflict("one upgrade at a time", "being upgraded already"),
            Refusal::Expired => over("its time is over; renew it first, if nobody took over"),
            Refusal::Revoked => over("it is being taken away by break"),
            Refusal::NotHeld | Refusal::NotWaiting | Refusal::NotLeaseBound => {
                over("it is not held in this store")
            }
        }
    }
}
