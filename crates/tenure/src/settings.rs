//! The settings of a keeper.

use std::time::Duration;

use tenure_core::{Owner, Ranking, RetryPolicy, setters};

use crate::Automated;

/// The settings of a keeper. The defaults are those of the command.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct Settings {
    /// The order of kinds.
    pub ranking: Ranking,
    /// The retries of passing faults, by the keeper or by the store itself.
    pub retry: RetryPolicy,
    /// The longest wait of a request that sets none.
    pub wait: Duration,
    /// The longest wait for a server that is away or has no room, when a store is opened. Zero
    /// tries once.
    pub open: Duration,
    /// The interval of heartbeats of a holder, or `None` for every 10 s. If leases expire, it is at
    /// most a third of their time, and by default exactly that.
    pub heartbeat: Option<Duration>,
    /// The age that the heartbeat of a lease of its own may reach before others may recover it,
    /// once its time is over: 1 s to 24 h. It goes with every lease that this keeper takes or
    /// renews. `None` is as long as the time of the lease, but 15 s at most.
    pub stale_grace: Option<Duration>,
    /// True to trust kernel locks on file systems where they are known to fail.
    pub trust_flock: bool,
    /// Owners that are not people: they may never break a lock.
    pub automated: Automated,
    /// The actor in the audit for calls that name none. `None` is the taker of the lease.
    pub actor: Option<Owner>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ranking: Ranking::default(),
            retry: RetryPolicy::default(),
            wait: Duration::from_secs(5),
            open: Duration::from_secs(15),
            heartbeat: None,
            stale_grace: None,
            trust_flock: false,
            automated: Automated::default(),
            actor: None,
        }
    }
}

impl Settings {
    setters! {
        /// Sets the order of kinds.
        with_ranking(ranking: Ranking) => ranking = ranking;
        /// Sets the retries of passing faults.
        with_retry(retry: RetryPolicy) => retry = retry;
        /// Sets the longest wait of a request that sets none.
        with_wait(wait: Duration) => wait = wait;
        /// Sets the longest wait for a server when a store is opened.
        with_open(open: Duration) => open = open;
        /// Sets the interval of heartbeats of a holder.
        with_heartbeat(heartbeat: Duration) => heartbeat = Some(heartbeat);
        /// Sets the age that the heartbeat of a lease may reach before others may recover it.
        with_stale_grace(grace: Duration) => stale_grace = Some(grace);
        /// Sets the owners that are not people.
        with_automated(automated: Automated) => automated = automated;
        /// Sets the actor in the audit for calls that name none.
        with_actor(actor: Option<Owner>) => actor = actor;
    }
}
