//! How a keeper applies the rules.

use std::time::Duration;

use tenure_core::{Ranking, RetryPolicy};

use crate::Automated;

/// How a keeper applies the rules. The defaults are those of the command.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which kinds are taken before which.
    pub ranking: Ranking,
    /// How passing faults are tried again, by the keeper or by the store itself.
    pub retry: RetryPolicy,
    /// How long a request waits that says nothing else.
    pub wait: Duration,
    /// How long a server is waited for that is away or has no room, when a store is opened; with none it is tried once.
    pub open: Duration,
    /// Trust kernel locks on file systems where they are known to fail.
    pub trust_flock: bool,
    /// Owners that are no people: they may never break a lock.
    pub automated: Automated,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ranking: Ranking::default(),
            retry: RetryPolicy::default(),
            wait: Duration::from_secs(5),
            open: Duration::from_secs(15),
            trust_flock: false,
            automated: Automated::default(),
        }
    }
}
