//! The settings of a keeper.

use std::time::Duration;

use tenure_core::{Ranking, RetryPolicy};

use crate::Automated;

/// The settings of a keeper. The defaults are those of the command.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The order of kinds.
    pub ranking: Ranking,
    /// The retries of passing faults.
    pub retry: RetryPolicy,
    /// The longest wait of a request that sets none.
    pub wait: Duration,
    /// The longest wait for a server that is away or has no room, when a store is opened. Zero tries once.
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
