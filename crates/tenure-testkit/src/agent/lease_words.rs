//! Commands about leases that outlive their session. They name a lease by its id.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{LeaseId, Mode, Resource, Token};

/// A command about leases that outlive their session. Any agent that knows the id may give it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseCommand {
    /// Take a set whose leases stay when the agent goes.
    Lock {
        /// The resources and their modes.
        items: Vec<(Resource, Mode)>,
        /// The time that the leases live unless renewed.
        ttl: Duration,
        /// The longest wait for the whole set.
        wait: Duration,
        /// The caller's own name for the request.
        key: Option<String>,
    },
    /// Look a lease up.
    Find {
        /// The id of the lease.
        lease: LeaseId,
    },
    /// Give a lease new time.
    Renew {
        /// The id of the lease.
        lease: LeaseId,
        /// The time to live; the last one if `None`.
        ttl: Option<Duration>,
        /// The owner that asks, where the owner is checked.
        by: Option<String>,
    },
    /// End a lease.
    Release {
        /// The id of the lease.
        lease: LeaseId,
        /// The owner that asks, where the owner is checked.
        by: Option<String>,
    },
    /// Make an upgradeable lease exclusive.
    Upgrade {
        /// The id of the lease.
        lease: LeaseId,
        /// The longest wait for the readers to leave.
        wait: Duration,
        /// The owner that asks, where the owner is checked.
        by: Option<String>,
    },
    /// Make an upgraded lease upgradeable again.
    Downgrade {
        /// The id of the lease.
        lease: LeaseId,
        /// The owner that asks, where the owner is checked.
        by: Option<String>,
    },
    /// Ask whether a token is still the newest one.
    Check {
        /// The resource that the token is for.
        resource: Resource,
        /// The token to check.
        token: Token,
    },
    /// Take a lease away from its holder, as the owner of the agent.
    Break {
        /// The id of the lease.
        lease: LeaseId,
        /// The reason, which the holder is told.
        reason: String,
    },
    /// Take away stale leases, as the owner of the agent.
    Recover,
    /// Read the whole audit of a resource.
    Audit {
        /// The resource whose audit is read.
        resource: Resource,
    },
    /// Say that a lease is needed for as long as the session of the agent lives.
    Claim {
        /// The id of the lease.
        lease: LeaseId,
        /// The name of the claimant, such as a job.
        claimant: String,
    },
    /// Add one to a record, so often, and tell the longest time of one change in milliseconds.
    Increment {
        /// The id of the record.
        id: String,
        /// The number of times.
        times: u32,
    },
    /// End a claim.
    Unclaim {
        /// The id of the lease.
        lease: LeaseId,
        /// The name of the claimant.
        claimant: String,
    },
}

impl LeaseCommand {
    /// Gives a lease as much new time as it had, without a check of its owner.
    pub fn renew(lease: &LeaseId) -> Self {
        LeaseCommand::Renew {
            lease: lease.clone(),
            ttl: None,
            by: None,
        }
    }

    /// Ends a lease, without a check of its owner.
    pub fn release(lease: &LeaseId) -> Self {
        LeaseCommand::Release {
            lease: lease.clone(),
            by: None,
        }
    }

    /// Makes a lease exclusive, without a check of its owner.
    pub fn upgrade(lease: &LeaseId, wait: Duration) -> Self {
        LeaseCommand::Upgrade {
            lease: lease.clone(),
            wait,
            by: None,
        }
    }

    /// Makes a lease upgradeable again, without a check of its owner.
    pub fn downgrade(lease: &LeaseId) -> Self {
        LeaseCommand::Downgrade {
            lease: lease.clone(),
            by: None,
        }
    }

    /// Returns all that an owner may do with a lease: renewal, release, upgrade and downgrade.
    pub fn all_of_its_owner(lease: &LeaseId, by: Option<&str>) -> [Self; 4] {
        let (id, by) = (|| lease.clone(), || by.map(str::to_owned));
        [
            LeaseCommand::Renew {
                lease: id(),
                ttl: None,
                by: by(),
            },
            LeaseCommand::Upgrade {
                lease: id(),
                wait: Duration::ZERO,
                by: by(),
            },
            LeaseCommand::Downgrade {
                lease: id(),
                by: by(),
            },
            LeaseCommand::Release {
                lease: id(),
                by: by(),
            },
        ]
    }
}
