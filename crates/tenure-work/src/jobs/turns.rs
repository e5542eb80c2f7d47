//! Whose turn it is: fair between projects, ordered within one.
//!
//! Between projects it is stride scheduling. Every project has a virtual time, its *pass*, which
//! its starts move on by one; the project with the lowest pass comes first. The pass of all
//! projects together follows the project that was started last. A start begins at the later of the
//! two:
//!
//! - A project that was away, or that its own caps kept from starting, has a low pass. It comes
//!   first once, and then stands where the others are: nothing is saved up while it could not start.
//! - No pass is ever more than one ahead of that of all, so a project that comes back at once after
//!   each of its jobs waits until all others had their turn.
//!
//! The passes are in the records, so a restart of a worker changes nothing.
//!
//! Within a project the lower priority comes first, then the job that was submitted first. The id
//! of a job begins with both ([`new_id`]), so that a list of records, which is in the order of ids,
//! is in the order of turns.

use serde::{Deserialize, Serialize};

use tenure::Timestamp;

use super::job::PRIORITY_MAX;

/// A project, or all of them together, as its record keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The virtual time.
    #[serde(default)]
    pub pass: u64,
    /// Whether it is paused: nothing starts then.
    #[serde(default)]
    pub paused: bool,
    /// The number of its jobs that are scheduled.
    #[serde(default)]
    pub waiting: u64,
}

impl Turn {
    /// Returns the project and all projects together, as they are after one of its jobs started.
    #[must_use]
    pub fn started(self, all: Turn) -> (Turn, Turn) {
        let at = self.pass.max(all.pass);
        let project = Turn {
            pass: at + 1,
            ..self
        };
        (project, Turn { pass: at, ..all })
    }
}

/// The digits of ids, in the order of bytes. Letters that are taken for digits are left out.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Returns the id of a new job: its priority, the time, and a random number. Ids of jobs that are
/// submitted in the same millisecond are in no order.
pub fn new_id(priority: u8, now: Timestamp, random: u32) -> String {
    let digit = |value: u64, place: u32| DIGITS[(value >> (5 * place) & 31) as usize] as char;
    let digits = |value, places: u32| (0..places).rev().map(move |place| digit(value, place));
    let priority = digits(priority.min(PRIORITY_MAX).into(), 1);
    let time = digits(now.as_millis().max(0).cast_unsigned(), 10);
    priority
        .chain(time)
        .chain(digits(random.into(), 6))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Projects with a number of jobs each, of which the one with the lowest pass starts next.
    struct Contest {
        all: Turn,
        projects: BTreeMap<&'static str, Turn>,
        starts: BTreeMap<&'static str, u64>,
    }

    impl Contest {
        fn of(projects: &[(&'static str, u64)]) -> Self {
            let turn = |waiting| Turn {
                waiting,
                ..Turn::default()
            };
            Self {
                all: Turn::default(),
                projects: projects.iter().map(|(name, n)| (*name, turn(*n))).collect(),
                starts: BTreeMap::new(),
            }
        }

        fn start(&mut self, allowed: impl Fn(&str) -> bool) -> &'static str {
            let waiting = self
                .projects
                .iter()
                .filter(|(name, turn)| turn.waiting > 0 && allowed(name));
            let (name, turn) = waiting
                .min_by_key(|(_, turn)| turn.pass)
                .expect("one waits");
            let (name, (turn, all)) = (*name, turn.started(self.all));
            self.all = all;
            self.projects.insert(
                name,
                Turn {
                    waiting: turn.waiting - 1,
                    ..turn
                },
            );
            *self.starts.entry(name).or_default() += 1;
            name
        }
    }

    #[test]
    fn while_all_wait_each_project_starts_as_many_whatever_its_load() {
        let mut contest = Contest::of(&[("a", 10_000), ("b", 100), ("c", 150), ("d", 101)]);
        for _ in 0..400 {
            contest.start(|_| true);
        }
        assert!(
            contest.starts.values().all(|starts| *starts == 100),
            "{:?}",
            contest.starts
        );
    }

    #[test]
    fn a_project_that_could_not_start_for_long_saves_nothing_up() {
        let mut contest = Contest::of(&[("a", 1000), ("b", 1000), ("c", 1000)]);
        for _ in 0..200 {
            contest.start(|name| name != "c");
        }
        let next: String = (0..9).map(|_| contest.start(|_| true)).collect();
        assert_eq!(next.matches('c').count(), 3, "{next}");
    }

    #[test]
    fn a_project_that_comes_back_after_each_job_does_not_pass_the_others() {
        let mut contest = Contest::of(&[("a", 1), ("b", 1000), ("c", 1000)]);
        for _ in 0..300 {
            contest.start(|_| true);
            contest.projects.get_mut("a").unwrap().waiting = 1;
        }
        assert_eq!(contest.starts["a"], 100, "{:?}", contest.starts);
    }

    #[test]
    fn ids_are_in_the_order_of_priority_and_then_time() {
        let at = Timestamp::from_millis;
        let ids = [
            new_id(0, at(1_800_000_000_000), u32::MAX),
            new_id(2, at(1_799_999_999_999), 7),
            new_id(2, at(1_800_000_000_000), 0),
            new_id(2, at(1_800_000_000_001), 0),
            new_id(31, at(0), 0),
        ];
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(ids[1], "201mcc5rkzz000007");
        assert_eq!(ids[0].len(), 17);
    }
}
