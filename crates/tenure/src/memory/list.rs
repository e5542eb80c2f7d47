//! The listing of holders and waiters.

use tenure_core::decide::explain;
use tenure_core::internal::Cursor;
use tenure_core::internal::page::WaitingPage;
use tenure_core::store::Waiting;
use tenure_core::{Lease, LeaseId, Listing, Query, Resource};

use super::tables::{Entry, Tables};

pub(super) fn list(tables: &Tables, query: &Query) -> Listing {
    let resources = tables.entries.iter().filter(|(r, _)| query.covers(r));
    let mut held = Vec::new();
    let mut waiting = WaitingPage::of(query);
    for (resource, entry) in resources {
        held.extend(entry.leases.values().cloned());
        if !query.held_only {
            waiting.add(waiters(resource, entry));
        }
    }
    let (held, next) = page(held, query);
    let (waiting, waiting_next) = waiting.cut();
    Listing::new(held, next).with_waiting(waiting, waiting_next)
}

/// Returns the page that the query asks for, sorted by resource and lease, and the start of the
/// next page.
fn page(mut held: Vec<Lease>, query: &Query) -> (Vec<Lease>, Option<String>) {
    let at = |lease: &Lease| Cursor::at(&lease.resource, &lease.lease);
    held.retain(|lease| query.asks_for(lease));
    held.sort_by_cached_key(at);
    let more = held.len() > query.limit();
    held.truncate(query.limit());
    let last = held.last().filter(|_| more);
    let next = last.map(|last| at(last).spelled());
    (held, next)
}

/// Returns the place in line of the request for a lease, from 1.
pub(super) fn position(tables: &Tables, resource: &Resource, lease: &LeaseId) -> Option<usize> {
    let line = tables.entries.get(resource)?.state.line();
    let ahead = line.iter().position(|waiter| waiter.lease == *lease)?;
    Some(ahead + 1)
}

fn waiters(resource: &Resource, entry: &Entry) -> Vec<Waiting> {
    let owner_of = |lease: &LeaseId| entry.leases.get(lease).map(|lease| &lease.owner);
    let line = explain(&entry.state, owner_of).into_iter();
    let listed = line.filter_map(|waits| {
        let known = entry.waiters.get(&waits.waiter.lease)?;
        let (awaited, since) = (&known.awaited, known.since);
        Some(waits.listed(resource, &awaited.asker().owner, since, awaited.deadline()))
    });
    listed.collect()
}
