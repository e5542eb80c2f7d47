//! How often locks are looked after, and how long an answer is waited for.

use std::time::Duration;

use tenure_core::Capabilities;
use tenure_core::decide::Millis;

/// The clock is looked at this often where leases run out: the timers do not count sleep, so
/// this is how late the end of a sleep can be noticed.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// After a sleep the store is asked for no longer than this.
const LAST_TRY_MAX: Duration = Duration::from_secs(1);

/// The rhythm of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rhythm {
    /// From one look to the next.
    pub(super) look: Duration,
    /// From one check of a lock to the next; None is at every look.
    pub(super) every: Option<Millis>,
    /// How long an answer is waited for.
    pub(super) limit: Duration,
    /// How long the answer is waited for that decides after a sleep.
    pub(super) last_try: Duration,
    /// A longer pause between two looks, in milliseconds, was a sleep.
    pub(super) asleep: Millis,
}

impl Rhythm {
    /// None where nothing can be lost.
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
        // Time is given anew when a third of it is used up. From there to the doubt is another
        // third, in which four checks begin at least.
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

    fn rhythm(check_every: Option<u64>, ttl: Option<u64>) -> Option<Rhythm> {
        Rhythm::of(&Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            check_every: check_every.map(Duration::from_millis),
            ttl: ttl.map(Duration::from_millis),
            slots: true,
        })
    }

    #[test]
    fn where_nothing_can_be_lost_nothing_is_looked_at() {
        assert_eq!(rhythm(None, None), None);
    }

    #[test]
    fn a_store_without_a_time_of_its_leases_is_checked_as_often_as_it_says() {
        let rhythm = rhythm(Some(1000), None).unwrap();
        assert_eq!((rhythm.look.as_millis(), rhythm.every), (1000, None));
    }

    #[test]
    fn a_short_lease_is_checked_more_often_than_the_store_says() {
        let usual = rhythm(Some(2000), Some(30_000)).unwrap();
        assert_eq!((usual.look.as_millis(), usual.every), (500, Some(2000)));
        let short = rhythm(Some(2000), Some(3000)).unwrap();
        assert_eq!((short.look.as_millis(), short.every), (250, Some(250)));
    }
}
