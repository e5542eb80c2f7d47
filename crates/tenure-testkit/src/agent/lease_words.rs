//! Commands about leases that outlive their session. Leases are named by their ids.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{LeaseId, Mode, Resource, Token};

/// A command about leases that outlive their session. Any agent that knows the id may do it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseCommand {
    /// Take a set whose leases stay when the agent goes.
    Lock {
        /// The resources and their modes.
        items: Vec<(Resource, Mode)>,
        /// How long they live unless renewed.
        ttl: Duration,
        /// How long to wait for all of it.
        wait: Duration,
        /// The caller's own name for the request.
        key: Option<String>,
    },
    /// Look a lease up.
    Find {
        /// The lease.
        lease: LeaseId,
    },
    /// Give a lease new time.
    Renew {
        /// The lease.
        lease: LeaseId,
        /// Its time to live; the last one if `None`.
        ttl: Option<Duration>,
        /// The owner that asks, if it is to be checked.
        by: Option<String>,
    },
    /// End a lease.
    Release {
        /// The lease.
        lease: LeaseId,
        /// The owner that asks, if it is to be checked.
        by: Option<String>,
    },
    /// Make an upgradeable lease exclusive.
    Upgrade {
        /// The lease.
        lease: LeaseId,
        /// How long to wait for the readers to leave.
        wait: Duration,
        /// The owner that asks, if it is to be checked.
        by: Option<String>,
    },
    /// Make an upgraded lease upgradeable again.
    Downgrade {
        /// The lease.
        lease: LeaseId,
        /// The owner that asks, if it is to be checked.
        by: Option<String>,
    },
    /// Ask whether a token is still the last one.
    Check {
        /// The resource.
        resource: Resource,
        /// The token.
        token: Token,
    },
    /// Take a lease away from its holder, as the owner of the agent.
    Break {
        /// The lease.
        lease: LeaseId,
        /// The reason.
        reason: String,
    },
    /// Take away what is stale, as the owner of the agent.
    Recover,
    /// Read the whole audit of a resource.
    Audit {
        /// The resource.
        resource: Resource,
    },
    /// Say that a lease is needed for as long as the session of the agent lives.
    Claim {
        /// The lease.
        lease: LeaseId,
        /// The claimant.
        claimant: String,
    },
    /// Add one to a record, so often, and tell the longest time of one change in milliseconds.
    Increment {
        /// The id of the record.
        id: String,
        /// How often.
        times: u32,
    },
    /// End a claim.
    Unclaim {
        /// The lease.
        lease: LeaseId,
        /// The claimant.
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
