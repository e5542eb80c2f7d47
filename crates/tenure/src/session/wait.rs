//! The one wait loop: a deadline around every store call that may wait.

use std::time::Duration;

use tenure_core::decide::{Millis, Wait};
use tenure_core::{Error, Lease, LockContext, Reply, Result, RetryPolicy, Timestamp};
use tenure_os::clock;
use tokio::time::{Instant, timeout_at};

use crate::retry::Tries;

/// The longest time that a busy store may take to answer a request that does not wait.
const TRY_MAX: Duration = Duration::from_secs(2);

/// The end of a request's wait, counted from when the request was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    began: Instant,
    /// The moment `began` on BOOTTIME, which counts sleep.
    began_boot: Millis,
    limit: Duration,
}

/// The lock was not free in time.
#[derive(Debug)]
pub(crate) struct GaveUp {
    waited: Duration,
    limit: Duration,
    attempts: u32,
}

impl Deadline {
    /// Returns the deadline `limit` from now. Zero does not wait.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            began: Instant::now(),
            began_boot: clock::boot_now(),
            limit,
        }
    }

    /// Returns true if a request may wait now. A request whose time was over before it could ask,
    /// as opening the store took it all, asks once without waiting.
    pub(crate) fn waits(&self) -> bool {
        !self.limit.is_zero() && self.began.elapsed() < self.limit
    }

    pub(crate) fn instant(&self) -> Instant {
        self.began + self.limit
    }

    /// Returns the end of the wait by the wall clock, for the store, or `None` if nothing waits.
    pub(crate) fn deadline_at(&self) -> Option<Timestamp> {
        let left = self.limit.saturating_sub(self.began.elapsed());
        self.waits().then(|| clock::now().after(left))
    }

    /// Returns the wait on BOOTTIME, by which stores decide: it cannot be set, and counts sleep.
    pub(crate) fn wait(&self) -> Wait {
        if !self.waits() {
            return Wait::No;
        }
        let limit = self.limit.as_millis();
        let limit = Millis::try_from(limit).unwrap_or(Millis::MAX);
        Wait::Until(self.began_boot.saturating_add(limit).saturating_add(1))
    }

    /// Returns the outcome of a wait that ran out. The wait counts as at least the limit: a store
    /// may notice the deadline before the timer of this process, which is behind after a sleep.
    pub(crate) fn gave_up(&self, attempts: u32) -> GaveUp {
        GaveUp {
            waited: self.began.elapsed().max(self.limit),
            limit: self.limit,
            attempts,
        }
    }
}

impl GaveUp {
    /// Returns the error for a request that was not a mere try.
    pub(crate) fn into_error(self, context: Box<LockContext>, holders: Vec<Lease>) -> Error {
        if self.limit.is_zero() {
            return Error::Busy { context, holders };
        }
        Error::Timeout {
            context,
            waited: self.waited,
            limit: self.limit,
            attempts: self.attempts,
            holders,
        }
    }
}

/// Makes a store call that may wait, within a deadline.
///
/// At the deadline the call is dropped, and the store gives back what it granted in that instant; a
/// grant that is there already is taken.
///
/// Passing faults are retried: until the deadline if the request waits, otherwise as often as the
/// policy says; never if there is no policy, as the store then does that itself.
pub(crate) async fn wait<'a, T>(
    deadline: &Deadline,
    policy: Option<&RetryPolicy>,
    ask: impl FnMut() -> Reply<'a, Option<T>>,
) -> Result<Result<T, GaveUp>> {
    let waits = deadline.waits();
    let (policy, until) = if waits {
        let policy = policy.map(RetryPolicy::without_limit);
        (policy, deadline.instant())
    } else {
        (policy.cloned(), Instant::now() + TRY_MAX)
    };
    let mut tries = Tries::default();
    match timeout_at(until, tries.run(policy.as_ref(), ask)).await {
        Ok(answer) => Ok(answer?.ok_or_else(|| deadline.gave_up(tries.made))),
        Err(_) => match tries.fault.take().filter(|_| waits) {
            // At the deadline it was the store that failed, not another holder in the way.
            Some(fault) => Err(fault),
            None => Ok(Err(deadline.gave_up(tries.made))),
        },
    }
}
