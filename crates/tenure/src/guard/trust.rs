//! The trust in the guard of an expiring lease, by the clock.
//!
//! The lease expires unless it is renewed, and then another holder may get the lock. Trust is
//! counted from the moment when the last answered request was *sent*, since its answer may lie
//! unread for long. The clock counts time asleep.
//!
//! | left of the lease | phase |
//! |---|---|
//! | more than a third | good |
//! | a third: two thirds are used up | doubt: the holder begins to stop |
//! | a sixth | over: the guard gives it up, before another holder can take it over |
//!
//! # Invariant
//!
//! A lease lasts at least as long in the store as it does here.

use std::sync::Mutex;
use std::time::Duration;

use tenure_core::decide::Millis;
use tenure_core::internal::lock;

/// The phase of a lease, by the time left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// More than a third is left.
    Good,
    /// Two thirds are used up.
    Doubt,
    /// Five sixths are used up, or all of it.
    Over,
}

/// The time of one lease, as far as it is known.
pub(crate) struct Trust {
    pub(super) ttl: Duration,
    last_answer: Mutex<GoodAnswer>,
}

/// The last good answer, in milliseconds since boot.
#[derive(Debug, Clone, Copy)]
struct GoodAnswer {
    asked: Millis,
    until: Millis,
}

impl Trust {
    /// Returns the trust in a lease that was requested at `asked`.
    pub(super) fn new(ttl: Duration, asked: Millis) -> Self {
        let until = after(asked, ttl);
        let last_answer = Mutex::new(GoodAnswer { asked, until });
        Self { ttl, last_answer }
    }

    /// Notes that a request sent at `asked` was answered: the lease lasts so long from then on. The
    /// request sent last counts, whichever answer comes first.
    pub(super) fn renewed(&self, asked: Millis, lasts: Duration) {
        let mut last_answer = lock(&self.last_answer);
        if asked >= last_answer.asked {
            let until = after(asked, lasts);
            *last_answer = GoodAnswer { asked, until };
        }
    }

    /// Returns the time left of the lease at a moment.
    pub(super) fn left(&self, now: Millis) -> Duration {
        Duration::from_millis(lock(&self.last_answer).until.saturating_sub(now))
    }

    /// Returns the time since the last answered request was sent.
    pub(super) fn unanswered(&self, now: Millis) -> Duration {
        Duration::from_millis(now.saturating_sub(lock(&self.last_answer).asked))
    }

    /// Returns the phase of the lease at a moment.
    pub(super) fn phase(&self, now: Millis) -> Phase {
        let left = self.left(now);
        if left <= self.ttl / 6 {
            Phase::Over
        } else if left <= self.ttl / 3 {
            Phase::Doubt
        } else {
            Phase::Good
        }
    }

    /// Returns the time left until the guard gives it up.
    pub(super) fn until_over(&self, now: Millis) -> Duration {
        Duration::from_millis(self.over_at().saturating_sub(now))
    }

    /// Returns the time at which the guard gives it up.
    pub(super) fn over_at(&self) -> Millis {
        let sixth = Millis::try_from((self.ttl / 6).as_millis()).unwrap_or(Millis::MAX);
        lock(&self.last_answer).until.saturating_sub(sixth)
    }

    /// Returns true if the wait for its grant used up so much of the lease that it must be renewed.
    pub(super) fn is_old(&self, now: Millis) -> bool {
        self.left(now) < self.ttl * 5 / 6
    }
}

fn after(moment: Millis, time: Duration) -> Millis {
    let time = Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX);
    moment.saturating_add(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn trust_fades_with_what_is_left_of_the_lease() {
        let trust = Trust::new(TTL, 1_000);
        for (at, phase) in [
            (1_000, Phase::Good),
            (20_999, Phase::Good),
            (21_000, Phase::Doubt),
            (25_999, Phase::Doubt),
            (26_000, Phase::Over),
            (99_000, Phase::Over),
        ] {
            assert_eq!(trust.phase(at), phase, "{at}");
        }
        assert_eq!(trust.left(99_000), Duration::ZERO);
        assert_eq!(trust.until_over(21_000), Duration::from_secs(5));
    }

    #[test]
    fn it_is_counted_from_the_question_and_not_from_the_answer() {
        let trust = Trust::new(TTL, 0);
        trust.renewed(10_000, TTL);
        assert_eq!(trust.left(19_000), Duration::from_secs(21));
        assert_eq!(trust.unanswered(19_000), Duration::from_secs(9));
    }

    #[test]
    fn the_answer_to_an_earlier_question_does_not_count_after_that_to_a_later_one() {
        let trust = Trust::new(TTL, 0);
        trust.renewed(10_000, Duration::from_secs(5));
        trust.renewed(9_000, TTL);
        assert_eq!(trust.left(10_000), Duration::from_secs(5));
    }

    #[test]
    fn a_grant_that_was_waited_for_long_is_old() {
        let trust = Trust::new(TTL, 0);
        assert!(!trust.is_old(5_000));
        assert!(trust.is_old(5_001));
    }
}
