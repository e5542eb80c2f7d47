//! Mutual exclusion, by what the guards vouch for and by their tokens.

use std::collections::BTreeMap;

use crate::event_log::Hold;

/// Finds holds whose tokens contradict each other, their questions or what their guards vouched
/// for. Writers are ordered by their tokens, and each has stopped to vouch before the next begins.
/// A reader carries the token of the writer before it, and lies between that writer and the next.
pub fn problems(holds: &[&Hold]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut tokens: BTreeMap<u64, &Hold> = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.is_exclusive()) {
        if let Some(other) = tokens.insert(hold.grant.token, hold) {
            problems.push(format!("one token for two leases: {other:?} and {hold:?}"));
        }
    }
    for one in holds {
        for other in holds {
            if !comes_first(one, other) {
                continue;
            }
            if one.grant.asked > other.grant.granted {
                problems.push(format!("asked later, lower token: {one:?}, {other:?}"));
            }
            if let (Some((_, last)), Some((first, _))) = (one.vouched, other.vouched)
                && last >= first
            {
                let both = last - first;
                problems.push(format!(
                    "both vouched for, by {both} µs: {one:?}, {other:?}"
                ));
            }
        }
    }
    problems
}

/// Tells whether the tokens say that one had to end before the other could be granted.
pub fn comes_first(one: &Hold, other: &Hold) -> bool {
    let (earlier, later) = (one.grant.token, other.grant.token);
    match (one.is_exclusive(), other.is_exclusive()) {
        (_, true) => earlier < later,
        (true, false) => earlier <= later,
        (false, false) => false,
    }
}

#[cfg(test)]
mod tests {
    use tenure::Mode::{Read, Write};

    use super::super::made_up::hold;
    use super::*;

    #[test]
    fn writers_and_readers_in_turn_are_fine() {
        let holds = [
            hold(1, Write, 5, 10, 20),
            hold(2, Read, 5, 30, 60),
            hold(3, Read, 5, 40, 70),
            hold(1, Write, 6, 80, 90),
        ];
        assert_eq!(problems(&holds.each_ref()), [""; 0]);
    }

    #[test]
    fn two_at_once_are_seen() {
        for (mode, other) in [(Write, Write), (Write, Read)] {
            let holds = [hold(1, mode, 5, 10, 40), hold(2, other, 6, 30, 60)];
            assert_eq!(problems(&holds.each_ref()).len(), 1, "{mode} {other}");
        }
        let holds = [hold(1, Read, 5, 10, 40), hold(2, Write, 6, 30, 60)];
        assert_eq!(problems(&holds.each_ref()).len(), 1);
        // A reader that carries the token of a writer begins after it.
        let holds = [hold(1, Write, 5, 10, 40), hold(2, Read, 5, 30, 60)];
        assert_eq!(problems(&holds.each_ref()).len(), 1);
    }

    #[test]
    fn a_token_drawn_twice_is_seen() {
        let holds = [hold(1, Write, 5, 10, 20), hold(2, Write, 5, 30, 40)];
        assert!(problems(&holds.each_ref())[0].contains("one token"));
    }

    #[test]
    fn a_lower_token_later_is_seen() {
        let holds = [hold(1, Write, 6, 10, 20), hold(2, Write, 5, 30, 40)];
        assert!(problems(&holds.each_ref())[0].contains("lower token"));
        let holds = [hold(1, Write, 6, 10, 20), hold(2, Read, 5, 30, 40)];
        assert!(problems(&holds.each_ref())[0].contains("lower token"));
    }
}
