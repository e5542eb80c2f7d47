//! What an agent can be told about leases of their own, which are named by their ids.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{LeaseId, Mode, Resource, Token};

/// A command about leases that outlive who took them. Whoever knows the id may give it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseCommand {
    /// Take a set whose leases stay when the agent goes.
    Lock {
        /// What, and how.
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
        /// Which.
        lease: LeaseId,
    },
    /// Give a lease new time.
    Renew {
        /// Which.
        lease: LeaseId,
        /// How much; as much as last time if None.
        ttl: Option<Duration>,
        /// On whose behalf, if that is to be checked.
        by: Option<String>,
    },
    /// End a lease.
    Release {
        /// Which.
        lease: LeaseId,
        /// On whose behalf, if that is to be checked.
        by: Option<String>,
    },
    /// Make an upgradeable lease exclusive.
    Upgrade {
        /// Which.
        lease: LeaseId,
        /// How long to wait for the readers to leave.
        wait: Duration,
        /// On whose behalf, if that is to be checked.
        by: Option<String>,
    },
    /// Make an upgraded lease upgradeable again.
    Downgrade {
        /// Which.
        lease: LeaseId,
        /// On whose behalf, if that is to be checked.
        by: Option<String>,
    },
    /// Ask whether a token is still the last one.
    Check {
        /// Of what.
        resource: Resource,
        /// The token.
        token: Token,
    },
    /// Take a lease away from its holder, as the owner of the agent.
    Break {
        /// Which.
        lease: LeaseId,
        /// Why.
        reason: String,
    },
    /// Take away what is stale, as the owner of the agent.
    Recover,
    /// Read the whole audit of a resource.
    Audit {
        /// Which.
        resource: Resource,
    },
    /// Say that a lease is needed for as long as the session of the agent lives.
    Claim {
        /// Which.
        lease: LeaseId,
        /// By what.
        claimant: String,
    },
    /// End a claim.
    Unclaim {
        /// Which.
        lease: LeaseId,
        /// By what.
        claimant: String,
    },
}

impl LeaseCommand {
    /// Gives a lease as much new time as it had, whoever it belongs to.
    pub fn renew(lease: &LeaseId) -> Self {
        LeaseCommand::Renew {
            lease: lease.clone(),
            ttl: None,
            by: None,
        }
    }

    /// Ends a lease, whoever it belongs to.
    pub fn release(lease: &LeaseId) -> Self {
        LeaseCommand::Release {
            lease: lease.clone(),
            by: None,
        }
    }

    /// Makes a lease exclusive, whoever it belongs to.
    pub fn upgrade(lease: &LeaseId, wait: Duration) -> Self {
        LeaseCommand::Upgrade {
            lease: lease.clone(),
            wait,
            by: None,
        }
    }

    /// Makes a lease upgradeable again, whoever it belongs to.
    pub fn downgrade(lease: &LeaseId) -> Self {
        LeaseCommand::Downgrade {
            lease: lease.clone(),
            by: None,
        }
    }

    /// Renewal, release, upgrade and downgrade of a lease: whatever its owner may do with it.
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
