//! How long a lease-bound guard may be trusted, by the clock.
//!
//! Its lease runs out unless it is renewed, and somebody else may have the lock then. So trust is
//! counted from when the last good question was *asked*: the answer may lie unread for long. The
//! clock counts time asleep.
//!
//! | left of the lease | phase |
//! |---|---|
//! | more than a third | good |
//! | a third: two thirds are used up | doubt: whoever relies on it begins to stop |
//! | a sixth | over: it is given up, before anybody can take it over |
//!
//! # Invariant
//!
//! What is known is never later than what is true: a lease lasts at least as long as it is said to here.

use std::sync::Mutex;
use std::time::Duration;

use tenure_core::decide::Millis;

use crate::poison::lock;

/// What is left of a lease, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Enough.
    Good,
    /// Two thirds are used up.
    Doubt,
    /// Five sixths are used up, or all of it.
    Over,
}

/// What is known of the time of one lease.
pub(crate) struct Trust {
    ttl: Duration,
    known: Mutex<Known>,
}

/// By the last good answer, in milliseconds since boot.
#[derive(Debug, Clone, Copy)]
struct Known {
    asked: Millis,
    until: Millis,
}

impl Trust {
    /// A lease granted by a question asked then.
    pub(super) fn new(ttl: Duration, asked: Millis) -> Self {
        let until = after(asked, ttl);
        let known = Mutex::new(Known { asked, until });
        Self { ttl, known }
    }

    /// A question asked then was answered: it lasts so long from there on. What was asked
    /// later counts, whichever answer comes first.
    pub(super) fn renewed(&self, asked: Millis, lasts: Duration) {
        let mut known = lock(&self.known);
        if asked >= known.asked {
            let until = after(asked, lasts);
            *known = Known { asked, until };
        }
    }

    /// What is left of it at a moment.
    pub(super) fn left(&self, now: Millis) -> Duration {
        Duration::from_millis(lock(&self.known).until.saturating_sub(now))
    }

    /// How long ago the last good question was asked.
    pub(super) fn unanswered(&self, now: Millis) -> Duration {
        Duration::from_millis(now.saturating_sub(lock(&self.known).asked))
    }

    /// How far it can be trusted at a moment.
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

    /// What is left until it is given up.
    pub(super) fn until_over(&self, now: Millis) -> Duration {
        self.left(now).saturating_sub(self.ttl / 6)
    }

    /// Whether so much of it was used up by the wait for its grant that it must be asked for anew.
    pub(super) fn is_old(&self, now: Millis) -> bool {
        self.left(now) < self.ttl * 5 / 6
    }

    /// How long it lasts without a renewal.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
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
