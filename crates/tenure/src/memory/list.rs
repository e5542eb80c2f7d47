//! Who holds, who waits, and why.

use tenure_core::decide::{self, State, Want};
use tenure_core::store::Waiting;
use tenure_core::{Lease, LeaseId, Listing, Mode, Query, Resource};

use super::shelf::{Entry, Shelf};

/// A page has at most this many unless the query says otherwise.
const LIMIT_DEFAULT: usize = 1000;

pub(super) fn list(shelf: &Shelf, query: &Query) -> Listing {
    let resources = shelf.entries.iter().filter(|(r, _)| matches(query, r));
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for (resource, entry) in resources {
        held.extend(entry.leases.values().cloned());
        waiting.extend(waiters(resource, entry));
    }
    held.retain(|lease| query.owner.as_ref().is_none_or(|o| lease.owner == *o));
    waiting.retain(|waiter| query.owner.as_ref().is_none_or(|o| waiter.owner == *o));
    let (held, next) = page(held, query, |lease: &Lease| (&lease.resource, &lease.lease));
    let (mut waiting, waiting_next) = page(waiting, query, |w: &Waiting| (&w.resource, &w.waiter));
    // Pages are cut by id, which stays, and shown by place, which moves.
    waiting.sort_by(|a, b| (&a.resource, a.position).cmp(&(&b.resource, b.position)));
    Listing {
        held,
        next,
        waiting: Some(waiting),
        waiting_next,
    }
}

fn matches(query: &Query, resource: &Resource) -> bool {
    let begins = |prefix: &String| resource.as_str().starts_with(prefix.as_str());
    query.resource.as_ref().is_none_or(|only| only == resource)
        && query.prefix.as_ref().is_none_or(begins)
}

/// Sorts by resource and lease, and cuts out the page the query asks for. The cursor is
/// `resource lease` of the last item; neither has blanks.
fn page<T>(
    mut items: Vec<T>,
    query: &Query,
    key: impl Fn(&T) -> (&Resource, &LeaseId),
) -> (Vec<T>, Option<String>) {
    let words = |item: &T| {
        let (resource, lease) = key(item);
        (resource.to_string(), lease.to_string())
    };
    items.sort_by_cached_key(words);
    if let Some(after) = &query.after {
        let (resource, lease) = after.split_once(' ').unwrap_or((after, ""));
        items.retain(|item| {
            let (of, id) = key(item);
            (of.as_str(), id.as_str()) > (resource, lease)
        });
    }
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT).max(1);
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more).map(words);
    let cursor = last.map(|(resource, lease)| format!("{resource} {lease}"));
    (items, cursor)
}

fn waiters(resource: &Resource, entry: &Entry) -> Vec<Waiting> {
    let mut line: Vec<&decide::Waiter> = entry.state.waiters.iter().collect();
    // The sort is stable: an upgrade comes first, all others as they came.
    line.sort_by_key(|waiter| waiter.want != Want::Upgrade);
    let mut listed = Vec::new();
    for (index, waiter) in line.iter().enumerate() {
        let Some(known) = entry.waiters.get(&waiter.lease) else {
            continue;
        };
        let before = index.checked_sub(1).map(|before| line[before]);
        let in_the_way = in_the_way(&entry.state, waiter);
        let request = known.request.as_ref();
        let held = entry.leases.get(&waiter.lease);
        let owner = request.map(|r| &r.asker.owner).or(held.map(|h| &h.owner));
        let Some(owner) = owner.cloned() else {
            continue;
        };
        listed.push(Waiting {
            waiter: waiter.lease.clone(),
            resource: resource.clone(),
            mode: mode_of(waiter.want),
            owner,
            since: known.since,
            deadline: request.and_then(|request| request.deadline),
            position: index + 1,
            reason: reason(entry, index, before, &in_the_way),
            blocked_by: in_the_way
                .iter()
                .chain(before.map(|before| &before.lease).iter())
                .map(|lease| (*lease).clone())
                .collect(),
        });
    }
    listed
}

fn mode_of(want: Want) -> Mode {
    match want {
        Want::Lease(mode) => mode,
        Want::Upgrade => Mode::Write,
    }
}

/// The leases that conflict with what a waiter wants, its own aside.
fn in_the_way<'a>(state: &'a State, waiter: &decide::Waiter) -> Vec<&'a LeaseId> {
    let mode = mode_of(waiter.want);
    let others = state.holders.iter().filter(|h| h.lease != waiter.lease);
    let conflicting = others.filter(|holder| holder.mode.conflicts_with(mode));
    conflicting.map(|holder| &holder.lease).collect()
}

fn reason(
    entry: &Entry,
    ahead: usize,
    before: Option<&decide::Waiter>,
    in_the_way: &[&LeaseId],
) -> String {
    match before {
        Some(before) if before.want == Want::Upgrade => "an upgrade is waiting".into(),
        Some(_) => format!("behind {ahead} {}", others(ahead)),
        None => {
            let holders = in_the_way.iter().filter_map(|id| entry.leases.get(id));
            let mut holders = holders.map(|lease| (lease.mode, &lease.owner));
            let Some((mode, owner)) = holders.next() else {
                return "next in line".into();
            };
            let more = holders.count();
            let and = match more {
                0 => String::new(),
                more => format!(" and {more} {}", others(more)),
            };
            format!("held for {mode} by {owner}{and}")
        }
    }
}

fn others(count: usize) -> &'static str {
    if count == 1 { "other" } else { "others" }
}
