//! Who holds, who waits, and why.

use tenure_core::decide::explain;
use tenure_core::store::Waiting;
use tenure_core::{Lease, LeaseId, Listing, Query, Resource};

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
    let owner_of = |lease: &LeaseId| entry.leases.get(lease).map(|lease| &lease.owner);
    let line = explain(&entry.state, owner_of).into_iter();
    let listed = line.filter_map(|explained| {
        let waiter = explained.waiter;
        let known = entry.waiters.get(&waiter.lease)?;
        let (asker, deadline) = known.asked.by()?;
        Some(Waiting {
            waiter: waiter.lease.clone(),
            resource: resource.clone(),
            mode: waiter.want.mode(),
            owner: asker.owner.clone(),
            since: known.since,
            deadline,
            position: explained.position,
            reason: explained.reason,
            blocked_by: explained.blocked_by,
        })
    });
    listed.collect()
}
