//! The one wait loop: a deadline around whatever a store lets wait.

use std::time::Duration;

use tenure_core::decide::Millis;
use tenure_core::{Error, Lease, Place, Reply, Result, RetryPolicy, Timestamp};
use tenure_files::clock;
use tokio::time::{Instant, timeout, timeout_at};

use crate::retry::Tries;

/// A timer is never set further ahead: what is beyond waits for ever as far as
/// anyone can tell, and stays within what clocks can represent.
const TIMER_MAX: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// A request that does not wait is not kept longer than this by a store that is busy with
/// something else.
const TRY_MAX: Duration = Duration::from_secs(2);

/// How long a request may wait, counted from when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    began: Instant,
    /// The same on the clock that counts sleep.
    began_boot: Millis,
    limit: Duration,
}

/// It could not be had in time.
#[derive(Debug)]
pub(crate) struct GaveUp {
    waited: Duration,
    limit: Duration,
    attempts: u32,
}

impl Patience {
    /// Waits at most `limit` from now on; zero does not wait.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            began: Instant::now(),
            began_boot: clock::boot_now(),
            limit,
        }
    }

    pub(crate) fn waits(&self) -> bool {
        !self.limit.is_zero()
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.began + self.limit.min(TIMER_MAX)
    }

    /// When the waiting ends by the clock on the wall, for the store; None without any waiting.
    pub(crate) fn deadline_at(&self) -> Option<Timestamp> {
        let left = self.limit.saturating_sub(self.began.elapsed());
        self.waits().then(|| clock::now().after(left))
    }

    /// The same on the clock that stores decide by: nobody sets it, and it counts sleep.
    pub(crate) fn until(&self) -> Option<Millis> {
        let limit = self.limit.min(TIMER_MAX).as_millis();
        let limit = Millis::try_from(limit).unwrap_or(Millis::MAX);
        self.waits()
            .then(|| self.began_boot.saturating_add(limit).saturating_add(1))
    }

    /// Gives up. A store may notice first that the time is over, and after a sleep the timer of
    /// the process is behind.
    pub(crate) fn gave_up(&self, attempts: u32) -> GaveUp {
        GaveUp {
            waited: self.began.elapsed().max(self.limit),
            limit: self.limit,
            attempts,
        }
    }
}

impl GaveUp {
    /// The error for whoever asked for a lock and not just tried.
    pub(crate) fn into_error(self, place: Box<Place>, holders: Vec<Lease>) -> Error {
        if self.limit.is_zero() {
            return Error::Busy { place, holders };
        }
        Error::Timeout {
            place,
            waited: self.waited,
            limit: self.limit,
            attempts: self.attempts,
            holders,
        }
    }
}

/// Asks a store for something it may have to wait for.
///
/// `try_now` is asked first, as most locks are free. A wait that runs
/// out is ended by dropping it, and the store gives back what it granted in that instant;
/// a grant that is there when the time runs out is taken.
///
/// Passing faults are tried again: as often as the policy says where nothing waits, until the
/// deadline where it does.
pub(crate) async fn wait<'a, T>(
    patience: &Patience,
    policy: &RetryPolicy,
    mut try_now: impl FnMut() -> Reply<'a, Option<T>>,
    wait: impl FnMut() -> Reply<'a, T>,
) -> Result<Result<T, GaveUp>> {
    let mut tries = Tries::default();
    if !patience.waits() {
        let got = timeout(TRY_MAX, tries.run(policy, try_now)).await;
        return match got {
            Ok(got) => Ok(got?.ok_or_else(|| patience.gave_up(tries.made))),
            Err(_) => Ok(Err(patience.gave_up(tries.made))),
        };
    }
    tries.made = 1;
    match timeout_at(patience.deadline(), try_now()).await {
        Ok(Ok(Some(got))) => return Ok(Ok(got)),
        Ok(Err(error)) if !error.is_passing() => return Err(error),
        Ok(_) => {}
        Err(_) => return Ok(Err(patience.gave_up(tries.made))),
    }
    let until_the_deadline = RetryPolicy {
        attempts: u32::MAX,
        ..policy.clone()
    };
    let waited = tries.run(&until_the_deadline, wait);
    match timeout_at(patience.deadline(), waited).await {
        // The store knows first that the time is over, as its clock counts sleep.
        Ok(Err(Error::Busy { .. })) => Ok(Err(patience.gave_up(tries.made))),
        Ok(done) => done.map(Ok),
        Err(_) => match tries.fault.take() {
            // Nobody else was in the way when the time ran out: the store was.
            Some(fault) => Err(fault),
            None => Ok(Err(patience.gave_up(tries.made))),
        },
    }
}
