//! The environment of the command: the store, the session, and every lease it runs under.

use std::ffi::OsString;

use tenure::{Lease, LockSet, Owner, Resource, Session};

use super::taken::Taken;
use tenure_service::around::{Ancestors, Outer, Outers};

/// The locks that the command runs under, and their store and owner.
pub struct CommandEnvironment<'a> {
    /// The store that it uses by default.
    pub store: &'a str,
    /// The owner.
    pub owner: &'a Owner,
    /// The slot.
    pub slot: &'a Taken,
    /// The locks.
    pub locks: &'a Taken,
    /// The locks in the order they were taken.
    pub wanted: &'a LockSet,
    /// The leases of outer `run`s.
    pub ancestors: &'a Ancestors,
}

/// Returns the variables for the command. Resources, leases and tokens stand in the same order: the slot,
/// then the locks as they are taken.
pub fn of_command(under: &CommandEnvironment<'_>) -> Vec<(&'static str, OsString)> {
    let (slot, locks) = (under.slot.own(), under.locks.own());
    let known: Vec<&Outer> = locks.iter().chain(&under.locks.under).collect();
    let of = |resource: &Resource| {
        let mut leases = known.iter().map(|outer| &outer.lease);
        leases.find(|lease| lease.resource == *resource)
    };
    let in_order = slot.iter().chain(&under.slot.under);
    let in_order = in_order.map(|outer| &outer.lease);
    let in_order: Vec<&Lease> = in_order
        .chain(under.wanted.iter().filter_map(|(resource, _)| of(resource)))
        .collect();
    let list = |field: &dyn Fn(&Lease) -> String| {
        let fields: Vec<String> = in_order.iter().map(|lease| field(lease)).collect();
        fields.join(",").into()
    };
    let own = slot.iter().chain(&locks);
    let leases = own.chain(under.ancestors.all()).cloned().collect();
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("TENURE_STORE", under.store.into()),
        ("TENURE_OWNER", under.owner.as_str().into()),
        ("TENURE_RESOURCE", list(&|lease| lease.resource.to_string())),
        ("TENURE_LEASE", list(&|lease| lease.lease.to_string())),
        ("TENURE_TOKEN", list(&|lease| lease.token.to_string())),
        ("TENURE_LEASES", Outers { leases }.to_json().into()),
    ];
    // If nothing was taken, the session of the outer run stays.
    let sessions = [&under.locks.session, &under.slot.session];
    let session: Option<&Session> = sessions.into_iter().flatten().next();
    variables.extend(session.map(|session| ("TENURE_SESSION", session.id().as_str().into())));
    variables
}
