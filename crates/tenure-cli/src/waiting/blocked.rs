//! The lock that blocks a request, and its description.

use std::time::Duration;

use tenure::{Lease, LeaseId, Mode, Resource, duration};

use super::Wait;
use crate::people::{ends, held_by};

/// The lock that blocks a request.
#[derive(Debug)]
pub struct BlockedRequest {
    pub resource: Resource,
    pub mode: Mode,
    /// The number of slots, if the request is for a slot.
    pub slots: Option<u32>,
    pub holders: Vec<Lease>,
    /// The description of a holder that left no record, if there can be one.
    pub unrecorded: Option<String>,
    /// Our place in the queue, if the store knows it.
    pub position: Option<usize>,
    /// The circle of requests that it is part of, in words.
    pub circle: Option<String>,
}

impl BlockedRequest {
    /// Returns the holder in words, `held (write) by …`, or `None` if there is none.
    pub fn by(&self) -> Option<String> {
        match (&self.holders[..], &self.unrecorded) {
            ([], Some(unrecorded)) => Some(format!("held by {unrecorded}")),
            ([], None) => None,
            ([one, rest @ ..], _) => {
                let more = match rest.len() {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                Some(held_by(one) + &more)
            }
        }
    }

    /// Returns a key that differs from holder to holder.
    pub fn key(&self) -> (Resource, Option<LeaseId>) {
        let first = self.holders.first();
        (
            self.resource.clone(),
            first.map(|lease| lease.lease.clone()),
        )
    }

    /// `, until it is released; place 2 in the queue`.
    fn until(&self) -> String {
        let mut text = String::new();
        if let Some(holder) = self.holders.first() {
            text = format!(", {}", ends(holder));
        }
        if let Some(position) = self.position {
            text.push_str(&format!("; place {position} in the queue"));
        }
        if let Some(circle) = &self.circle {
            text.push_str(&format!("; in a circle: {circle}"));
        }
        text
    }
}

/// Returns the first lock of the set that is not ours and that another holder blocks. A listing
/// that fails is ignored; the wait itself reports the error.
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
        let lock_context = keeper.store().context_of(resource, *mode);
        let blocked = BlockedRequest {
            resource: resource.clone(),
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
        // It has no holder: it is about to be ours, or another waiter is before us.
        first_missing = first_missing.or(Some(blocked));
    }
    first_missing
}

/// Returns the description of a program that only knows kernel locks, with the command that finds it.
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

/// `waiting for name:x (write), 12s of 10m 00s`.
fn waiting_for(blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) -> String {
    let time = format!("{} of {}", duration::show(waited), duration::show(limit));
    match blocked {
        None => format!("waiting for a lock, {time}"),
        Some(BlockedRequest {
            resource,
            slots: Some(slots),
            ..
        }) => format!("waiting for {resource} ({slots} at a time), {time}"),
        Some(BlockedRequest { resource, mode, .. }) => {
            format!("waiting for {resource} ({mode}), {time}")
        }
    }
}

/// Returns everything in one line.
pub fn in_words(blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) -> String {
    let mut text = waiting_for(blocked, waited, limit);
    if let Some(blocked) = blocked {
        if let Some(by) = blocked.by() {
            text.push_str(": ");
            text.push_str(&by);
        }
        text.push_str(&blocked.until());
    }
    text
}

/// Returns the part that changes from second to second, short enough for most terminals.
pub fn in_few_words(blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) -> String {
    let until = blocked.map(BlockedRequest::until).unwrap_or_default();
    waiting_for(blocked, waited, limit) + &until
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::people::tests::lease;

    pub fn blocked(holders: Vec<Lease>, position: Option<usize>) -> BlockedRequest {
        BlockedRequest {
            resource: Resource::parse("x").unwrap(),
            mode: Mode::Write,
            slots: None,
            holders,
            unrecorded: None,
            position,
            circle: None,
        }
    }

    #[test]
    fn a_wait_tells_what_who_until_when_and_how_long() {
        let words = in_words(
            Some(&blocked(vec![lease("x")], Some(2))),
            Duration::from_secs(12),
            Duration::from_secs(600),
        );
        assert_eq!(
            words,
            "waiting for name:x (write), 12s of 10m 00s: held (write) by ana@desk for 3m 05s: \
             pid 4242 on desk, \"cargo test\", purpose: nightly, until it is released; \
             place 2 in the queue"
        );
    }

    #[test]
    fn a_wait_nobody_is_seen_to_cause_still_tells_the_time() {
        let words = in_words(
            Some(&blocked(vec![], None)),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        assert_eq!(words, "waiting for name:x (write), 1.0s of 5.0s");
    }

    #[test]
    fn a_holder_without_a_record_is_looked_for_by_its_file() {
        let mut blocked = blocked(vec![], None);
        blocked.unrecorded = Some(unrecorded("fuser /s/x".into()));
        let words = in_words(
            Some(&blocked),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        assert!(
            words.ends_with(": held by a program that leaves no record; see: fuser /s/x"),
            "{words}"
        );
    }

    #[test]
    fn a_wait_for_a_slot_tells_how_many_there_are_and_who_has_them() {
        let mut blocked = blocked(vec![lease("slot:build"), lease("slot:build")], None);
        blocked.resource = Resource::parse("slot:build").unwrap();
        blocked.slots = Some(2);
        let words = in_words(
            Some(&blocked),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        assert!(
            words.starts_with(
                "waiting for slot:build (2 at a time), 1.0s of 5.0s: held by ana@desk for 3m 05s: "
            ),
            "{words}"
        );
        assert!(words.contains(", and 1 more"), "{words}");
    }
}
