//! The reasons why requests wait, in words that are the same in every store.

use super::state::{Holder, HolderState, State, Waiter, Want};
use crate::store::Waiting;
use crate::{LeaseId, Owner, Resource, Timestamp};

/// A waiter, and why it is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained<'a> {
    /// The waiter that is explained.
    pub waiter: &'a Waiter,
    /// Its place in the line, from 1.
    pub position: usize,
    /// The leases that keep it out, and the waiter before it.
    pub blocked_by: Vec<LeaseId>,
    /// The reason why it is not granted now, in words.
    pub reason: String,
}

impl Explained<'_> {
    /// Returns the row of a listing. The store knows the resource, the owner and the times.
    pub fn listed(
        self,
        resource: &Resource,
        owner: &Owner,
        since: Timestamp,
        deadline: Option<Timestamp>,
    ) -> Waiting {
        Waiting {
            waiter: self.waiter.lease.clone(),
            resource: resource.clone(),
            mode: self.waiter.want.mode(),
            owner: owner.clone(),
            since,
            deadline,
            position: self.position,
            reason: self.reason,
            blocked_by: self.blocked_by,
        }
    }
}

/// Explains all waiters, in the order in which they are served. `owner_of` returns the owner of a
/// lease that is held.
pub fn explain<'a, 'o>(
    state: &'a State,
    owner_of: impl Fn(&LeaseId) -> Option<&'o Owner>,
) -> Vec<Explained<'a>> {
    let mut explained = Vec::new();
    let mut before: Option<&Waiter> = None;
    for (ahead, waiter) in state.line().into_iter().enumerate() {
        explained.push(explain_waiter(state, waiter, before, ahead, &owner_of));
        before = Some(waiter);
    }
    explained
}

/// Explains one waiter. It needs only the waiter before it and the number of those ahead, not the
/// whole line.
pub fn explain_waiter<'a, 'o>(
    state: &State,
    waiter: &'a Waiter,
    before: Option<&Waiter>,
    ahead: usize,
    owner_of: &impl Fn(&LeaseId) -> Option<&'o Owner>,
) -> Explained<'a> {
    let in_the_way = in_the_way(state, waiter);
    let leases = in_the_way.iter().map(|holder| &holder.lease);
    let blocked_by = leases.chain(before.map(|before| &before.lease));
    Explained {
        waiter,
        position: ahead + 1,
        blocked_by: blocked_by.cloned().collect(),
        reason: match before {
            Some(before) if before.want == Want::Upgrade => "an upgrade is waiting".into(),
            Some(_) => format!("behind {ahead} {}", others(ahead)),
            None => keeps_out(waiter.want, &in_the_way, owner_of),
        },
    }
}

/// Returns the holders that keep a waiter out, without its own lease.
fn in_the_way<'a>(state: &'a State, waiter: &Waiter) -> Vec<&'a Holder> {
    let others = state.holders.iter().filter(|h| h.lease != waiter.lease);
    match waiter.want {
        Want::Lease {
            mode,
            capacity: None,
        } => others.filter(|h| h.mode.conflicts_with(mode)).collect(),
        Want::Lease { mode, capacity } if state.fits(mode, capacity) => Vec::new(),
        // Every holder has one of the slots, and an upgrade has to be the only holder.
        Want::Lease { .. } | Want::Upgrade => others.collect(),
    }
}

/// Returns the reason that keeps out the first in line, in words.
fn keeps_out<'o>(
    want: Want,
    in_the_way: &[&Holder],
    owner_of: impl Fn(&LeaseId) -> Option<&'o Owner>,
) -> String {
    let capacity = match want {
        Want::Lease { capacity, .. } => capacity,
        Want::Upgrade => None,
    };
    let mut named = in_the_way
        .iter()
        .filter_map(|holder| Some((holder, owner_of(&holder.lease)?)));
    let (holder, owner) = match (capacity, named.next()) {
        (_, None) => return "next in line".into(),
        (Some(1), _) => return "the only slot is taken".into(),
        (Some(slots), _) => return format!("all {slots} slots are taken"),
        (None, Some(first)) => first,
    };
    let mode = holder.mode;
    let first = match holder.state {
        HolderState::Held => format!("held for {mode} by {owner}"),
        HolderState::Offered { .. } => format!("offered to {owner}"),
        HolderState::Revoking { .. } => format!("held for {mode} by {owner} (being broken)"),
    };
    match named.count() {
        0 => first,
        more => format!("{first} and {more} {}", others(more)),
    }
}

fn others(count: usize) -> &'static str {
    if count == 1 { "other" } else { "others" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::state::{Bound, Life};
    use crate::{Mode, SessionId};

    fn lease(name: &str) -> LeaseId {
        LeaseId::parse(name).unwrap()
    }

    fn holder(name: &str, mode: Mode, state: HolderState) -> Holder {
        Holder {
            lease: lease(name),
            session: SessionId::parse(name).unwrap(),
            mode,
            upgraded: false,
            state,
            binding: Bound::Session,
            life: Life::Alive,
        }
    }

    fn waiter(name: &str, want: Want) -> Waiter {
        Waiter {
            lease: lease(name),
            session: SessionId::parse(name).unwrap(),
            want,
            deadline: 10,
            life: Life::Alive,
        }
    }

    fn wants(mode: Mode, capacity: Option<u32>) -> Want {
        Want::Lease { mode, capacity }
    }

    /// Returns the line as `place waiter: reason [blocked by]`. Every owner is named like its
    /// lease.
    fn told(holders: Vec<Holder>, waiters: Vec<Waiter>) -> Vec<String> {
        let state = State { holders, waiters };
        let owners: Vec<(LeaseId, Owner)> = (state.holders.iter())
            .map(|h| (h.lease.clone(), Owner::parse(h.lease.as_str()).unwrap()))
            .collect();
        let owner_of = |lease: &LeaseId| {
            let owner = owners.iter().find(|(of, _)| of == lease);
            owner.map(|(_, owner)| owner)
        };
        let line = explain(&state, owner_of).into_iter();
        let told = line.map(|one| {
            let blocked_by: Vec<_> = one.blocked_by.iter().map(LeaseId::as_str).collect();
            let (place, lease, why) = (one.position, &one.waiter.lease, one.reason);
            format!("{place} {lease}: {why} [{}]", blocked_by.join(" "))
        });
        told.collect()
    }

    #[test]
    fn the_first_in_line_is_told_who_keeps_it_out_and_all_others_whom_they_are_behind() {
        let holders = vec![
            holder("r1", Mode::Read, HolderState::Held),
            holder("r2", Mode::Read, HolderState::Held),
        ];
        let waiters = vec![
            waiter("w1", wants(Mode::Write, None)),
            waiter("r3", wants(Mode::Read, None)),
            waiter("w2", wants(Mode::Write, None)),
        ];
        let expected = [
            "1 w1: held for read by r1 and 1 other [r1 r2]",
            "2 r3: behind 1 other [w1]",
            "3 w2: behind 2 others [r1 r2 r3]",
        ];
        assert_eq!(told(holders, waiters), expected);
    }

    #[test]
    fn an_upgrade_stands_first_and_is_not_in_its_own_way() {
        let holders = vec![
            holder("up", Mode::Upgradeable, HolderState::Held),
            holder("r1", Mode::Read, HolderState::Held),
        ];
        let waiters = vec![
            waiter("r2", wants(Mode::Read, None)),
            waiter("up", Want::Upgrade),
        ];
        let expected = [
            "1 up: held for read by r1 [r1]",
            "2 r2: an upgrade is waiting [up]",
        ];
        assert_eq!(told(holders, waiters), expected);
    }

    #[test]
    fn an_offer_and_a_break_are_called_so() {
        let next = || vec![waiter("w2", wants(Mode::Write, None))];
        let offered = holder("w1", Mode::Write, HolderState::Offered { until: 5 });
        assert_eq!(told(vec![offered], next()), ["1 w2: offered to w1 [w1]"]);
        let revoking = holder("w1", Mode::Write, HolderState::Revoking { until: 5 });
        let expected = ["1 w2: held for write by w1 (being broken) [w1]"];
        assert_eq!(told(vec![revoking], next()), expected);
    }

    #[test]
    fn slots_are_counted_as_the_first_in_line_counts_them() {
        let taken = || {
            vec![
                holder("s1", Mode::Write, HolderState::Held),
                holder("s2", Mode::Write, HolderState::Held),
            ]
        };
        let asks_for = |slots| vec![waiter("s3", wants(Mode::Write, Some(slots)))];
        let expected = ["1 s3: all 2 slots are taken [s1 s2]"];
        assert_eq!(told(taken(), asks_for(2)), expected);
        let expected = ["1 s3: the only slot is taken [s1 s2]"];
        assert_eq!(told(taken(), asks_for(1)), expected);
        assert_eq!(told(taken(), asks_for(3)), ["1 s3: next in line []"]);
    }
}
