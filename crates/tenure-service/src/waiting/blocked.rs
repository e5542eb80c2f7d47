//! The lock that blocks a request.

use tenure::{Binding, Lease, LeaseId, LeaseState, Mode, Remedy, Resource, clock, duration};
use tenure_os::platform::{host_name, is_gone};

use super::Wait;

/// A lock that a request waits for, and the reasons why it is not granted.
#[derive(Debug)]
pub struct BlockedRequest {
    /// The resource that is asked for.
    pub resource: Resource,
    /// Its name in messages.
    pub name: String,
    /// The mode in which it is asked for.
    pub mode: Mode,
    /// The number of slots, if the request is for a slot.
    pub slots: Option<u32>,
    /// The holders in the way, as far as they are known.
    pub holders: Vec<Lease>,
    /// The description of a holder that left no record, if there can be one.
    pub unrecorded: Option<String>,
    /// Our place in the queue, if the store knows it.
    pub position: Option<usize>,
    /// The circle of requests that our request is part of, in words.
    pub circle: Option<String>,
}

impl BlockedRequest {
    /// Returns a key that changes when the resource or its first holder changes.
    pub fn key(&self) -> (Resource, Option<LeaseId>) {
        let first = self.holders.first();
        (
            self.resource.clone(),
            first.map(|lease| lease.lease.clone()),
        )
    }
}

/// Returns the first lock of the set that another holder or waiter keeps from us; if there is none,
/// the first that we do not hold yet. A listing that fails is ignored: the wait itself reports the
/// error.
pub async fn what_blocks(wait: &Wait<'_>) -> Option<BlockedRequest> {
    let session = wait.session;
    let mut first_missing = None;
    for (resource, mode) in wait.set.iter() {
        let keeper = session.keeper();
        let held = keeper.holders(resource).await.unwrap_or_default();
        if held.iter().any(|lease| lease.session == *session.id()) {
            continue;
        }
        let conflicting = held
            .into_iter()
            .filter(|lease| lease.mode.conflicts_with(*mode) && Some(&lease.lease) != wait.own);
        let holders: Vec<Lease> = conflicting.collect();
        let lock_context = keeper.context_of(resource, *mode);
        let blocked = BlockedRequest {
            resource: resource.clone(),
            name: lock_context.name(),
            mode: *mode,
            slots: wait.slots,
            holders,
            unrecorded: lock_context.without_record().map(unrecorded),
            position: position(wait, resource).await,
            circle: circle(wait, resource).await,
        };
        if !blocked.holders.is_empty() || blocked.position.is_some() {
            return Some(blocked);
        }
        // Without holder and place in line it is about to be ours, or another waiter is before us.
        first_missing = first_missing.or(Some(blocked));
    }
    first_missing
}

/// Returns the description of a program that only knows kernel locks, with the command that finds
/// it.
pub fn unrecorded(see: String) -> String {
    format!("a program that leaves no record; see: {see}")
}

/// Returns our place in the queue, if the store knows it.
async fn position(wait: &Wait<'_>, resource: &Resource) -> Option<usize> {
    let lease = match wait.own {
        Some(own) => own.clone(),
        None => wait.session.lease_of(resource)?,
    };
    let found = wait.session.keeper().position(resource, &lease).await;
    found.ok().flatten()
}

/// Returns the circle that our request is part of, if the store can tell.
async fn circle(wait: &Wait<'_>, resource: &Resource) -> Option<String> {
    let lease = match wait.own {
        Some(own) => own.clone(),
        None => wait.session.lease_of(resource)?,
    };
    let circles = wait.session.keeper().circles().await.ok()?;
    let circle = circles.into_iter().find(|circle| circle.has(&lease))?;
    Some(circle.to_string())
}

/// Returns true if this process does not see the process that holds the lease: `run` was killed and
/// its command, which inherited the lock, goes on; or `run` is in another PID namespace. A lease of
/// `tenure lock` belongs to no process.
///
/// It is only for people: a process id proves nothing, since another process may have it by now.
pub fn is_run_unseen(lease: &Lease) -> bool {
    lease.binding == Binding::Session && lease.host == host_name() && is_gone(lease.pid)
}

/// Returns when a lease ends.
pub fn ends(lease: &Lease) -> Remedy {
    let now = clock::now();
    match (lease.state, lease.expires_at) {
        (LeaseState::Revoking, _) => "until it has stopped, for 10s at most".into(),
        (LeaseState::Unknown, _) => Remedy::of(
            "until a person ends it with: {break lease reason=TEXT}",
            &[lease.lease.as_str()],
        ),
        (LeaseState::Expired, _) => "its time is over".into(),
        (_, None) => "until it is released".into(),
        (_, Some(at)) => match lease.resource.kept() {
            Some(kept) => format!("{kept} is kept until {at}, however soon its command ends"),
            None => {
                let more = duration::show(at.since(now));
                format!("at most {more} more unless it is renewed")
            }
        }
        .into(),
    }
}
