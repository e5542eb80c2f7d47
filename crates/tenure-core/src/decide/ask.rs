//! Requests to a resource, and their outcomes.

use std::time::Duration;

use super::Millis;
use crate::internal::loaded::millis;
use crate::request::Awaited;
use crate::{Error, LeaseId, LockContext, Mode, SessionId};

/// The wait of a request: none, or until a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Do not wait: the outcome is busy.
    No,
    /// Wait, at most until this time.
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
        /// The number of holders that the resource may have at once, for this request; `None` if
        /// the modes decide.
        capacity: Option<u32>,
        /// The wait: none, or until a deadline.
        wait: Wait,
    },
    /// A waiter accepts its offer.
    Accept(LeaseId),
    /// A lease becomes lease-bound, because its set is complete. Its time starts now.
    Bind {
        /// The lease to bind.
        lease: LeaseId,
        /// Its time to live.
        ttl: Millis,
        /// The grace period: how old its heartbeat may get.
        grace: Millis,
    },
    /// A lease-bound lease gets new time, also if it has expired and is still there.
    Renew {
        /// The lease to renew.
        lease: LeaseId,
        /// Its time to live, from now.
        ttl: Millis,
        /// The grace period: how old its heartbeat may get.
        grace: Millis,
    },
    /// An upgradeable lease is to become write.
    Upgrade {
        /// The lease to upgrade.
        lease: LeaseId,
        /// The wait: none, or until a deadline.
        wait: Wait,
    },
    /// An upgraded lease is to become upgradeable again.
    Downgrade(LeaseId),
    /// A lease ends. For one that is being broken this confirms that its holder stopped.
    Release(LeaseId),
    /// A waiter gives up. The id is that of its future lease, or of the lease to upgrade.
    Withdraw(LeaseId),
    /// A person breaks a lease.
    Break(LeaseId),
    /// No request, but time has passed or a session died.
    Look,
}

impl Ask {
    /// Returns the question of a request. `wait` is its wait, on the clock of the decision.
    pub fn of(awaited: &Awaited, wait: Wait) -> Self {
        match awaited {
            Awaited::Lease(request) => Ask::Acquire {
                lease: request.lease.clone(),
                session: request.asker.session.clone(),
                mode: request.mode,
                capacity: request.capacity,
                wait,
            },
            Awaited::Upgrade(request, _) => Ask::Upgrade {
                lease: request.lease.clone(),
                wait,
            },
        }
    }

    /// Asks for a lease to become lease-bound, with this time to live and grace period.
    pub fn bind(lease: &LeaseId, ttl: Duration, grace: Duration) -> Self {
        Ask::Bind {
            lease: lease.clone(),
            ttl: millis(ttl),
            grace: millis(grace),
        }
    }

    /// Asks for new time for a lease, with this time to live and grace period.
    pub fn renew(lease: &LeaseId, ttl: Duration, grace: Duration) -> Self {
        Ask::Renew {
            lease: lease.clone(),
            ttl: millis(ttl),
            grace: millis(grace),
        }
    }

    /// Returns the lease that the request is about.
    pub(super) fn lease(&self) -> Option<&LeaseId> {
        match self {
            Ask::Acquire { lease, .. }
            | Ask::Accept(lease)
            | Ask::Bind { lease, .. }
            | Ask::Renew { lease, .. }
            | Ask::Upgrade { lease, .. }
            | Ask::Downgrade(lease)
            | Ask::Release(lease)
            | Ask::Withdraw(lease)
            | Ask::Break(lease) => Some(lease),
            Ask::Look => None,
        }
    }
}

/// The outcome of a request.
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

/// The reason why a request does not fit the state.
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
        let conflict = |expected: &str, actual: &str| Error::unexpected(context, expected, actual);
        let over = |reason: &str| Error::over(lease, reason);
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
