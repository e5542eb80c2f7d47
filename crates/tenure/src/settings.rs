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
    /// The interval of heartbeats of a holder, or `None` for every 10 s. Where leases expire it is
    /// at most a third of their time, which is also the default there.
    pub heartbeat: Option<Duration>,
    /// How old the heartbeat of a lease of its own may get before others may recover it, once its
    /// time is over: 1 s to 24 h. It goes with every lease that this keeper takes or renews.
    /// `None`: as long as its time, but 15 s at most.
    pub stale_grace: Option<Duration>,
    /// Trust kernel locks on file systems where they are known to fail.
    pub trust_flock: bool,
    /// Owners that are no people: they may never break a lock.
    pub automated: Automated,
    /// Who asks where a call names nobody, for the audit. `None`: who took the lease.
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
        /// Sets which kinds are taken before which.
        with_ranking(ranking: Ranking) => ranking = ranking;
        /// Sets how passing faults are tried again.
        with_retry(retry: RetryPolicy) => retry = retry;
        /// Sets how long a request waits that says nothing else.
        with_wait(wait: Duration) => wait = wait;
        /// Sets how long a server is waited for when a store is opened.
        with_open(open: Duration) => open = open;
        /// Sets how often a holder writes that it is alive.
        with_heartbeat(heartbeat: Duration) => heartbeat = Some(heartbeat);
        /// Sets how old the heartbeat of a lease may get before others may recover it.
        with_stale_grace(grace: Duration) => stale_grace = Some(grace);
        /// Sets which owners are no people.
        with_automated(automated: Automated) => automated = automated;
        /// Sets who asks where a call names nobody.
        with_actor(actor: Option<Owner>) => actor = actor;
    }
}
