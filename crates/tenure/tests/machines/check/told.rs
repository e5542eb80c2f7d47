//! Checks that a holder is told of its loss before another has the lock, and refused afterwards.

use super::exclusion::comes_first;
use crate::event_log::{Hold, Outcome, Who};
use crate::moment::Moment;

/// A longer gap is a sleep: a sixth of a lease.
const SLEPT: Moment = 333_000;
/// A machine asks the store for this long after a sleep.
const LAST_TRY: Moment = 1_000_000;
/// The time that may lie between the end of a gap and the telling.
const SLACK: Moment = 50_000;

/// Counts of what the check met.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Holders that stopped in time before another was granted what they had not released.
    pub in_time: u64,
    /// Holders that were not told in time because their machine stood still.
    pub excused: u64,
    /// Refused renewals, token checks and releases of holders that were taken over.
    pub refused: u64,
}

/// Checks that a live holder stops to rely on a lock before anyone else is granted it, and that a
/// holder that was taken over is refused all it tries.
pub fn problems(holds: &[&Hold], gaps: &[(Who, Moment, Moment)], told: &mut Told) -> Vec<String> {
    let mut problems = Vec::new();
    for hold in holds.iter().filter(|hold| hold.released.is_none()) {
        let after = holds.iter().filter(|other| comes_first(hold, other));
        let Some(next) = after.min_by_key(|other| other.grant.granted) else {
            continue;
        };
        let taken = next.grant.granted;
        match hold.stopped() {
            // The machine did not live to be told.
            None => {}
            Some(at) if at <= taken => told.in_time += 1,
            Some(at) => {
                let gaps = gaps.iter().filter(|(who, ..)| *who == hold.who);
                if gaps
                    .clone()
                    .any(|(_, from, to)| stood_still(*from, *to, taken))
                {
                    told.excused += 1;
                } else {
                    let late = at - taken;
                    problems.push(format!("told {late} µs late: {hold:?}, after {next:?}"));
                }
            }
        }
        if let Some(late) = hold.late.as_ref().filter(|late| taken < late.at) {
            // A reader draws no token, so it does not fence the writer before it.
            let exclusive = holds.iter().any(|other| {
                other.is_exclusive() && comes_first(hold, other) && other.grant.granted < late.at
            });
            let mut tried = vec![("renewal", &late.renewal), ("release", &late.release)];
            if exclusive {
                tried.push(("token", &late.token));
            }
            for (what, outcome) in tried {
                match outcome {
                    Outcome::Refused => told.refused += 1,
                    Outcome::NoAnswer(_) => {}
                    Outcome::Done => {
                        problems.push(format!("late {what} accepted: {hold:?}, after {next:?}"));
                    }
                }
            }
        }
    }
    problems
}

/// Tells whether a machine that did nothing in this time could not tell before then. A machine that
/// slept for long asks the store once more before it tells, for a second at most; its guards are
/// unknown then.
fn stood_still(from: Moment, to: Moment, taken: Moment) -> bool {
    let slept = to - from >= SLEPT;
    let after = if slept { LAST_TRY } else { 0 };
    from < taken && to + after + SLACK > taken
}

#[cfg(test)]
mod tests {
    use tenure::Mode::Write;

    use super::super::made_up::{hold, who};
    use super::*;
    use crate::event_log::Late;

    fn taken_over(told_at: Moment, release: Outcome) -> [Hold; 2] {
        let mut first = hold(1, Write, 5, 1_000_000, 2_000_000);
        (first.releasing, first.released) = (None, None);
        first.told = Some(told_at);
        first.late = Some(Late {
            at: told_at.max(3_000_002),
            renewal: Outcome::Refused,
            token: Outcome::Refused,
            release,
        });
        [first, hold(2, Write, 6, 3_000_000, 4_000_000)]
    }

    fn look(holds: &[Hold; 2], gaps: &[(Who, Moment, Moment)]) -> (usize, Told) {
        let mut told = Told::default();
        let problems = problems(&holds.each_ref(), gaps, &mut told);
        (problems.len(), told)
    }

    #[test]
    fn who_is_told_first_is_fine() {
        let (problems, told) = look(&taken_over(2_900_000, Outcome::Refused), &[]);
        assert_eq!((problems, told.in_time, told.refused), (0, 1, 3));
    }

    #[test]
    fn who_is_told_late_is_excused_only_if_it_stood_still() {
        let holds = taken_over(3_500_000, Outcome::Refused);
        assert_eq!(look(&holds, &[]).0, 1);
        let (problems, told) = look(&holds, &[(who(1), 2_100_000, 3_490_000)]);
        assert_eq!((problems, told.excused), (0, 1));
        // The gap of another machine or of another time is no excuse.
        assert_eq!(look(&holds, &[(who(2), 2_100_000, 3_490_000)]).0, 1);
        assert_eq!(look(&holds, &[(who(1), 1_100_000, 1_900_000)]).0, 1);
    }

    #[test]
    fn a_late_release_that_is_accepted_is_seen() {
        assert_eq!(look(&taken_over(2_900_000, Outcome::Done), &[]).0, 1);
    }
}
