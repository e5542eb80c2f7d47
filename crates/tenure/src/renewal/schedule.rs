//! The schedule of the checks of locks.

use std::time::Duration;

use tenure_core::Capabilities;
use tenure_core::decide::Millis;

/// The longest time between two looks at the clock where leases expire. Timers do not count sleep,
/// so a sleep is noticed this late at most.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// The longest wait for the answer to the check after a sleep.
const LAST_TRY_MAX: Duration = Duration::from_secs(1);

/// The schedule of checks for one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CheckSchedule {
    /// The time from one look to the next.
    pub(super) look: Duration,
    /// The time from one check of a lock to the next, or `None` for a check at every look.
    pub(super) every: Option<Millis>,
    /// The longest wait for the answer to a check.
    pub(super) limit: Duration,
    /// The longest wait for the answer to the check after a sleep.
    pub(super) last_try: Duration,
    /// The pause between two looks, in milliseconds, from which it counts as a sleep.
    pub(super) asleep: Millis,
}

impl CheckSchedule {
    /// Returns the schedule for a store, or `None` if it cannot lose a lock.
    pub(super) fn of(capabilities: &Capabilities) -> Option<Self> {
        let Some(ttl) = capabilities.ttl else {
            let every = capabilities.check_every?;
            return Some(Self {
                look: every,
                every: None,
                limit: every,
                last_try: every,
                asleep: Millis::MAX,
            });
        };
        // A lease is renewed when a third of its time is used up. The doubt begins another third
        // later, and at least four checks begin in between.
        let every = ttl / 12;
        let every = capabilities.check_every.map_or(every, |c| c.min(every));
        Some(Self {
            look: every.min(LOOK_MAX),
            every: Some(millis(every)),
            limit: ttl / 6,
            last_try: LAST_TRY_MAX.min(ttl / 3),
            asleep: millis(ttl / 6),
        })
    }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(check_every: Option<u64>, ttl: Option<u64>) -> Option<CheckSchedule> {
        CheckSchedule::of(&Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            check_every: check_every.map(Duration::from_millis),
            ttl: ttl.map(Duration::from_millis),
            slots: true,
            retries: false,
        })
    }

    #[test]
    fn where_nothing_can_be_lost_nothing_is_looked_at() {
        assert_eq!(schedule(None, None), None);
    }

    #[test]
    fn a_store_without_a_time_of_its_leases_is_checked_as_often_as_it_says() {
        let schedule = schedule(Some(1000), None).unwrap();
        assert_eq!((schedule.look.as_millis(), schedule.every), (1000, None));
    }

    #[test]
    fn a_short_lease_is_checked_more_often_than_the_store_says() {
        let usual = schedule(Some(2000), Some(30_000)).unwrap();
        assert_eq!((usual.look.as_millis(), usual.every), (500, Some(2000)));
        let short = schedule(Some(2000), Some(3000)).unwrap();
        assert_eq!((short.look.as_millis(), short.every), (250, Some(250)));
    }
}
