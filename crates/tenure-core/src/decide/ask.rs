//! What is asked of a resource, and how that ends.

use super::Millis;
use crate::{LeaseId, Mode, SessionId};

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
