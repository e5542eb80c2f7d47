//! What the command is told: the store, the session, and every lease it runs under.

use std::ffi::OsString;

use tenure::{Guard, Lease, LockSet, Session};

use super::nesting::{Ancestors, Outer, Outers};

/// The kernel takes no variable longer than 128 KiB. Beyond this, leases are passed on
/// without what is only for people.
const LEASES_BYTES_MAX: usize = 96 * 1024;

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
    let all: Vec<Outer> = all.chain(ancestors.all().cloned()).collect();
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
        ("TENURE_LEASES", leases(all).into()),
    ]
}

fn leases(leases: Vec<Outer>) -> String {
    let written = Outers { leases }.to_json();
    if written.len() <= LEASES_BYTES_MAX {
        return written;
    }
    let mut shorter = Outers::from_json(written.as_bytes()).unwrap_or_default();
    for outer in &mut shorter.leases {
        outer.lease.metadata = None;
        outer.lease.purpose = None;
        outer.lease.command.clear();
    }
    shorter.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;

    #[test]
    fn leases_stay_below_what_the_kernel_takes() {
        let mut long = lease("x");
        long.metadata = Some("x".repeat(4000).into());
        let outer = Outer {
            lease: long,
            store: "file:/s".into(),
        };
        let json = leases(vec![outer; 100]);
        assert!(json.len() <= LEASES_BYTES_MAX, "{}", json.len());
        assert_eq!(
            Outers::from_json(json.as_bytes()).unwrap().leases.len(),
            100
        );
    }
}
