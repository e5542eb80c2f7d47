//! What is asked of a resource, and how that ends.

use super::Millis;
use crate::{Error, LeaseId, Mode, Place, SessionId};

/// Whether a request waits, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Answer busy at once.
    No,
    /// Wait, at most until then.
    Until(Millis),
}

impl Wait {
    /// Until when there is time to wait, if there is.
    pub(super) fn deadline(self, now: Millis) -> Option<Millis> {
        match self {
            Wait::Until(deadline) if deadline > now => Some(deadline),
            _ => None,
        }
    }
}

/// What is asked of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A new lease.
    Acquire {
        /// The id it will have; until granted, the id of the waiter.
        lease: LeaseId,
        /// For whom.
        session: SessionId,
        /// How.
        mode: Mode,
        /// How many may hold the resource at once, for this request; None is up to the modes.
        capacity: Option<u32>,
        /// Whether to wait.
        wait: Wait,
    },
    /// A waiter takes up what it was offered.
    Accept {
        /// Which.
        lease: LeaseId,
    },
    /// A lease becomes lease-bound, because the set it belongs to is complete. Its time begins now.
    Bind {
        /// Which.
        lease: LeaseId,
        /// Its time.
        ttl: Millis,
        /// How old its heartbeat may get.
        grace: Millis,
    },
    /// A lease-bound lease gets new time, also when it has expired and nobody took over.
    Renew {
        /// Which.
        lease: LeaseId,
        /// Its time, from now.
        ttl: Millis,
        /// How old its heartbeat may get.
        grace: Millis,
    },
    /// An upgradeable lease is to become write.
    Upgrade {
        /// Which.
        lease: LeaseId,
        /// Whether to wait.
        wait: Wait,
    },
    /// An upgraded lease is to become upgradeable again.
    Downgrade {
        /// Which.
        lease: LeaseId,
    },
    /// A lease ends. For one that is being broken this confirms that its holder stopped.
    Release {
        /// Which.
        lease: LeaseId,
    },
    /// A waiter gives up.
    Withdraw {
        /// The id of its lease to be, or of the lease to be upgraded.
        lease: LeaseId,
    },
    /// A person takes a lease away from its holder.
    Break {
        /// Which.
        lease: LeaseId,
    },
    /// Nothing; but time has passed, or someone died.
    Look,
}

impl Ask {
    /// The lease it is about.
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
    /// It would have to wait.
    Busy,
    /// The request had its effect.
    Done,
    /// The request makes no sense here.
    Refused(Refusal),
}

/// Why a request makes no sense.
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
    /// The lease was never upgraded, so there is nothing to go back to.
    NeverUpgraded,
    /// There is no such waiter.
    NotWaiting,
    /// The time of the lease is over. It has to be renewed before it can be upgraded.
    Expired,
    /// A person is taking the lease away.
    Revoked,
    /// The lease ends with its session and has no time to renew.
    NotLeaseBound,
}

impl Refusal {
    /// As whoever wanted to change the mode of a lease is told of it.
    pub fn of_mode(self, lease: &LeaseId, place: Box<Place>) -> Error {
        let conflict = |expected: &str, actual: &str| Error::Conflict {
            place,
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
