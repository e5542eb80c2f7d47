//! What the command is told: the store, the session, and every lease it runs under.

use std::ffi::OsString;

use tenure::{Guard, Lease, LockSet, Session};

use super::nesting::{Ancestors, Outer, Outers};

/// The variables for the command. Resources, leases and tokens stand in the same order.
pub fn of_command(
    session: &Session,
    wanted: &LockSet,
    guards: &[Guard],
    reused: &[Lease],
    ancestors: &Ancestors,
) -> Vec<(&'static str, OsString)> {
    let own: Vec<Lease> = guards.iter().map(Guard::lease).collect();
    let of = |resource: &tenure::Resource| {
        let mut leases = own.iter().chain(reused);
        leases.find(|lease| lease.resource == *resource)
    };
    let in_order: Vec<&Lease> = wanted
        .iter()
        .filter_map(|(resource, _)| of(resource))
        .collect();
    let list = |field: &dyn Fn(&Lease) -> String| {
        let fields: Vec<String> = in_order.iter().map(|lease| field(lease)).collect();
        fields.join(",")
    };
    let store = session.keeper().store().url();
    let all = own.iter().map(|lease| Outer {
        lease: lease.clone(),
        store: store.to_owned(),
    });
    let leases = all.chain(ancestors.all().cloned()).collect();
    vec![
        ("TENURE_STORE", store.into()),
        ("TENURE_SESSION", session.id().as_str().into()),
        ("TENURE_OWNER", session.owner().as_str().into()),
        (
            "TENURE_RESOURCE",
            list(&|lease| lease.resource.to_string()).into(),
        ),
        (
            "TENURE_LEASE",
            list(&|lease| lease.lease.to_string()).into(),
        ),
        (
            "TENURE_TOKEN",
            list(&|lease| lease.token.to_string()).into(),
        ),
        ("TENURE_LEASES", Outers { leases }.to_json().into()),
    ]
}
