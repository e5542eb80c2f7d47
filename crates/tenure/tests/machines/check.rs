//! The conditions that a history must meet. Each check is a function of what the machines wrote
//! down, and says what is wrong.
//!
//! | module | what it asks |
//! |---|---|
//! | `exclusion` | did two guards vouch for the same lock at the same time; do later grants have higher tokens |
//! | `linear` | is there an order of all grants and ends that fits every answer |
//! | `told` | was a live holder told before another was granted; was a late one refused |
//! | `fenced` | was an update of the register lost; does it fit every answer |
//!
//! All moments are of one clock. A guard vouches for the moment *before* it was asked, so neither a
//! stopped machine nor a slow one is excused from exclusion: it did not vouch while it stood still.

mod exclusion;
mod fenced;
mod linear;
mod told;

use std::collections::BTreeMap;

use crate::event_log::{Account, Hold};
use crate::register::Written;

pub use told::Told;

/// The problems of a round, in words, and counts of what the checks met.
#[derive(Debug, Default)]
pub struct Verdict {
    pub problems: Vec<String>,
    pub told: Told,
}

/// Checks every history of a round.
pub fn round(account: &Account, written: &[Written], values: &BTreeMap<u32, i64>) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.problems.extend(account.surprises.iter().cloned());
    for (resource, value) in values {
        let of_this = |hold: &&Hold| hold.grant.resource == *resource;
        let holds: Vec<&Hold> = account.holds.iter().filter(of_this).collect();
        let written: Vec<&Written> = written.iter().filter(|w| w.resource == *resource).collect();
        let mut problems = exclusion::problems(&holds);
        problems.extend(linear::problems(&holds));
        problems.extend(told::problems(&holds, &account.gaps, &mut verdict.told));
        problems.extend(fenced::problems(&holds, &written, *value));
        problems.extend(fenced::order(account, &written, *resource));
        let named = problems
            .iter()
            .map(|problem| format!("history {resource}: {problem}"));
        verdict.problems.extend(named);
    }
    verdict
}

/// Invented histories, which show that the checks see what is wrong.
#[cfg(test)]
pub mod made_up {
    use tenure::Mode;

    use crate::event_log::{Grant, Hold, Who};
    use crate::moment::Moment;

    pub fn who(machine: u32) -> Who {
        Who { machine, life: 0 }
    }

    /// Makes a hold that was granted as soon as it was asked for, vouched for in between, and
    /// released at once.
    pub fn hold(machine: u32, mode: Mode, token: u64, from: Moment, to: Moment) -> Hold {
        let grant = Grant {
            hold: from,
            resource: 0,
            mode,
            token,
            lease: format!("lease-{machine}-{token}-{from}"),
            asked: from,
            granted: from + 1,
        };
        Hold {
            vouched: Some((from + 2, to - 1)),
            releasing: Some(to),
            released: Some(to + 1),
            ..Hold::new(who(machine), grant)
        }
    }
}
