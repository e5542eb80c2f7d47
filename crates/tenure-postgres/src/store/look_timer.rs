//! The time that a waiter sleeps if it is not woken.
//!
//! Only one waiter of a process looks after a line, and the processes look one after the other:
//! when something runs out, all have looked within a second, and seldom more than one finds
//! something to do.

use std::time::Duration;

use tenure_core::LeaseId;
use tenure_core::decide::next_look;

use super::step::Step;

/// The longest sleep of the first process in line; each process behind it sleeps a second longer
/// than the one before.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest sleep of any process that looks after a line.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(15);
/// The delay of each process after the one before it when something runs out.
const STAGGER: Duration = Duration::from_millis(50);
/// The longest such delay, so that the next process takes over within a second.
const STAGGER_MAX: Duration = Duration::from_millis(800);

/// The time that a waiter sleeps before it looks unasked.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookTimer {
    /// The number of other processes that have a waiter in line before this one.
    before: u32,
    /// The time until the next lease, offer or break runs out.
    next: Option<Duration>,
}

impl LookTimer {
    /// Returns the timer for a waiter, from the state that a step has loaded.
    pub(super) fn of(step: &Step<'_>, id: &LeaseId) -> Self {
        let waiters = &step.loaded.waiters;
        let before = waiters.iter().take_while(|row| row.waiter.lease != *id);
        let mut processes: Vec<&str> = before.map(|row| row.process.as_str()).collect();
        processes.sort_unstable();
        processes.dedup();
        let ours = &step.store.process;
        let before = processes.iter().filter(|process| **process != ours).count();
        let now = step.moment.now();
        let next = next_look(&step.state, now);
        LookTimer {
            before: u32::try_from(before).unwrap_or(u32::MAX),
            // One millisecond is added, so that the time is over when the waiter looks.
            next: next.map(|at| Duration::from_millis(at.saturating_sub(now).saturating_add(1))),
        }
    }

    /// Returns the time to sleep for the waiter that looks after the line.
    pub(super) fn duration(self, jitter: f64) -> Duration {
        let usual = LOOK_EVERY.saturating_mul(self.before.saturating_add(1));
        let usual = usual.min(LOOK_EVERY_MAX).mul_f64(1.0 - jitter / 4.0);
        let later = STAGGER.saturating_mul(self.before).min(STAGGER_MAX);
        match self.next {
            Some(next) => usual.min(next.saturating_add(later)),
            None => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_timer(before: u32, next: Option<u64>) -> LookTimer {
        LookTimer {
            before,
            next: next.map(Duration::from_millis),
        }
    }

    #[test]
    fn the_first_process_looks_within_a_second_and_each_behind_it_later_but_never_after_15_s() {
        let timers: Vec<Duration> = (0..100)
            .map(|n| look_timer(n, None).duration(0.0))
            .collect();
        assert_eq!(timers[0], Duration::from_secs(1));
        assert_eq!(timers[1], Duration::from_secs(2));
        assert!(timers.is_sorted());
        assert_eq!(timers[99], Duration::from_secs(15));
    }

    #[test]
    fn what_runs_out_is_looked_at_by_all_within_a_second_one_after_the_other() {
        let timers: Vec<Duration> = (0..100)
            .map(|n| look_timer(n, Some(100)).duration(0.0))
            .collect();
        assert_eq!(timers[0], Duration::from_millis(100));
        assert!(timers.is_sorted() && timers[1] > timers[0]);
        assert_eq!(timers[99], Duration::from_millis(900));
    }

    #[test]
    fn no_two_that_wait_look_at_the_same_moment() {
        assert!(look_timer(0, None).duration(1.0) < look_timer(0, None).duration(0.5));
        assert!(look_timer(0, None).duration(1.0) >= Duration::from_millis(750));
    }
}
