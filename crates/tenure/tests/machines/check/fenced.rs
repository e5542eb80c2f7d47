//! The register that the locks protect: no update is lost, and old tokens are refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::event_log::{Account, Hold};
use crate::moment::Moment;
use crate::register::Written;

/// Checks the accepted writes in the order of their values: each is one more than the one before,
/// with no lower token, and each token was granted for writing.
pub fn problems(holds: &[&Hold], written: &[&Written], value: i64) -> Vec<String> {
    let mut problems = Vec::new();
    let mut accepted: Vec<&&Written> = written.iter().filter(|write| write.accepted).collect();
    accepted.sort_by_key(|write| (write.believed, write.asked));
    for (expected, write) in (0..).zip(&accepted) {
        if write.believed != expected {
            problems.push(format!("an update was lost at {expected}: {write:?}"));
            break;
        }
    }
    if i64::try_from(accepted.len()).unwrap() != value {
        let count = accepted.len();
        problems.push(format!("{count} accepted writes made {value}"));
    }
    for two in accepted.windows(2) {
        if two[0].token > two[1].token {
            problems.push(format!("a lower token wrote later: {two:?}"));
        }
    }
    let writers = holds.iter().filter(|hold| hold.is_exclusive());
    let granted: BTreeSet<u64> = writers.map(|hold| hold.grant.token).collect();
    for write in written {
        if !granted.contains(&write.token) {
            problems.push(format!(
                "written with a token nobody was granted: {write:?}"
            ));
        }
    }
    problems
}

/// Checks that the register is linearizable. The order of its values is that of its writes: a
/// caller that was answered with a value comes before a caller that asked later and got less.
pub fn order(account: &Account, written: &[&Written], resource: u32) -> Vec<String> {
    let mut problems = Vec::new();
    // A value is there from some moment after its write was asked for, and gone from some moment
    // before the next was answered.
    let mut asked: BTreeMap<i64, Moment> = BTreeMap::new();
    for write in written.iter().filter(|write| write.accepted) {
        asked.insert(write.believed + 1, write.asked);
    }
    let mut latest = 0;
    for (value, asked) in &asked {
        latest = latest.max(*asked);
        if let Some(answered) = account.wrote.get(&(resource, *value))
            && *answered < latest
        {
            let early = latest - answered;
            problems.push(format!("value {value} was answered {early} µs too early"));
        }
    }
    for read in account
        .reads
        .iter()
        .filter(|read| read.resource == resource)
    {
        let begins = asked.get(&read.value).copied().unwrap_or(0);
        let ends = account.wrote.get(&(resource, read.value + 1));
        if read.answered < begins || ends.is_some_and(|ends| read.asked > *ends) {
            problems.push(format!("never the value in that time: {read:?}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use tenure::Mode::Write;

    use super::super::made_up::hold;
    use super::*;
    use crate::event_log::Seen;

    fn write(token: u64, believed: i64) -> Written {
        Written {
            resource: 0,
            token,
            believed,
            accepted: true,
            asked: u64::try_from(believed).unwrap() * 10,
        }
    }

    fn look(written: &[Written], value: i64) -> Vec<String> {
        let holds = [hold(1, Write, 5, 10, 20), hold(2, Write, 6, 30, 40)];
        problems(
            &holds.each_ref(),
            &written.iter().collect::<Vec<_>>(),
            value,
        )
    }

    #[test]
    fn writes_one_after_the_other_are_fine() {
        let mut written = [write(5, 0), write(5, 1), write(6, 2), write(5, 2)];
        written[3].accepted = false;
        assert_eq!(look(&written, 3), [""; 0]);
    }

    #[test]
    fn a_lost_update_is_seen() {
        assert!(!look(&[write(5, 0), write(6, 0)], 1).is_empty());
    }

    #[test]
    fn a_lower_token_that_writes_later_is_seen() {
        assert!(!look(&[write(6, 0), write(5, 1)], 2).is_empty());
    }

    #[test]
    fn a_token_from_nowhere_is_seen() {
        assert!(!look(&[write(7, 0)], 1).is_empty());
    }

    #[test]
    fn a_value_that_is_read_when_it_is_gone_is_seen() {
        let mut account = Account::default();
        let written = [write(5, 0), write(5, 1)];
        let written: Vec<&Written> = written.iter().collect();
        account.wrote.insert((0, 1), 5);
        account.wrote.insert((0, 2), 15);
        let read = |value, asked| Seen {
            resource: 0,
            value,
            asked,
            answered: asked + 1,
        };
        account.reads = vec![read(1, 12), read(2, 16)];
        assert_eq!(order(&account, &written, 0), [""; 0]);
        account.reads = vec![read(1, 16)];
        assert_eq!(order(&account, &written, 0).len(), 1);
        account.reads = vec![read(2, 3)];
        assert_eq!(order(&account, &written, 0).len(), 1);
        // The read is answered before a lower value was even asked for.
        account.reads.clear();
        account.wrote.insert((0, 2), 15);
        let mut written = [write(5, 0), write(5, 1)];
        written[0].asked = 20;
        let written: Vec<&Written> = written.iter().collect();
        assert!(!order(&account, &written, 0).is_empty());
    }
}
