//! Linearizability of the lock: is there one order of all grants and ends, each at a moment between
//! its question and its answer, in which the lock is never held by two?
//!
//! The tokens give the order, so it need not be searched for: writers by their tokens, and the
//! readers of a token between its writer and the next. Each grant and each end is put at the
//! earliest moment that is left; if that is too late for one of them, no order fits. A hold whose
//! release was not acknowledged ended at any moment after it was last vouched for.

use std::collections::BTreeMap;

use crate::event_log::Hold;
use crate::moment::Moment;

/// Returns the grants and ends that fit no order.
pub fn problems(holds: &[&Hold]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut groups: BTreeMap<u64, (Vec<&Hold>, Vec<&Hold>)> = BTreeMap::new();
    for hold in holds {
        let (writers, readers) = groups.entry(hold.grant.token).or_default();
        match hold.is_exclusive() {
            true => writers.push(hold),
            false => readers.push(hold),
        }
    }
    let mut free = 0;
    for (writers, readers) in groups.values() {
        // Another check tells of two writers with one token.
        for writer in writers {
            free = end(writer, free, &mut problems);
        }
        let ends = readers
            .iter()
            .map(|reader| end(reader, free, &mut problems));
        free = ends.max().unwrap_or(free);
    }
    problems
}

/// Returns the earliest end of a hold that cannot be granted before the lock is free.
fn end(hold: &Hold, free: Moment, problems: &mut Vec<String>) -> Moment {
    let granted = free.max(hold.grant.asked);
    if granted > hold.grant.granted {
        let late = granted - hold.grant.granted;
        problems.push(format!(
            "granted {late} µs before it can have been: {hold:?}"
        ));
    }
    let (after, before) = match (hold.releasing, hold.released) {
        (Some(asked), Some(answered)) => (asked, answered),
        _ => {
            let last = hold.vouched.map_or(hold.grant.asked, |(_, last)| last);
            (last, Moment::MAX)
        }
    };
    let ended = granted.max(after);
    if ended > before {
        problems.push(format!(
            "released before it can have been granted: {hold:?}"
        ));
    }
    ended
}

#[cfg(test)]
mod tests {
    use tenure::Mode::{Read, Write};

    use super::super::made_up::hold;
    use super::*;

    #[test]
    fn an_answer_may_come_late() {
        let mut first = hold(1, Write, 5, 10, 20);
        first.released = Some(100);
        let mut second = hold(2, Write, 6, 30, 60);
        second.grant.asked = 5;
        assert_eq!(problems(&[&second, &first]), [""; 0]);
    }

    #[test]
    fn a_grant_before_the_release_was_asked_for_does_not_fit() {
        let (first, second) = (hold(1, Write, 5, 10, 50), hold(2, Write, 6, 30, 60));
        assert_eq!(problems(&[&first, &second]).len(), 1);
        // It fits if the first hold ended otherwise: its machine was killed.
        let mut killed = first;
        (killed.releasing, killed.released, killed.vouched) = (None, None, Some((12, 29)));
        assert_eq!(problems(&[&killed, &second]), [""; 0]);
    }

    #[test]
    fn a_writer_waits_for_all_readers() {
        let (one, other) = (hold(1, Read, 5, 10, 20), hold(2, Read, 5, 12, 50));
        let early = hold(3, Write, 6, 30, 60);
        assert_eq!(problems(&[&one, &other, &early]).len(), 1);
        let later = hold(3, Write, 6, 51, 60);
        assert_eq!(problems(&[&one, &other, &later]), [""; 0]);
    }

    #[test]
    fn a_release_that_is_acknowledged_after_the_lock_went_on_does_not_fit() {
        // The first was told at 50 that its lease ended well then, but the second had it since 30.
        let (first, mut second) = (hold(1, Write, 5, 10, 50), hold(2, Write, 6, 30, 40));
        second.grant.asked = 12;
        assert!(!problems(&[&first, &second]).is_empty());
    }
}
