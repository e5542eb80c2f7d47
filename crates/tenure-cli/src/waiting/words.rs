//! The lock that blocks a request, in words.

use std::time::Duration;

use tenure::duration;
use tenure_core::circles::IN_CIRCLE;
use tenure_service::waiting::BlockedRequest;

use crate::people::{ends, held_by};

/// Returns the holder in words, `held (write) by …`, or `None` if there is none.
pub fn by(blocked: &BlockedRequest) -> Option<String> {
    match (&blocked.holders[..], &blocked.unrecorded) {
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

/// Returns the end of the lock and the place: `, until it is released; place 2 in the queue`.
fn until(blocked: &BlockedRequest) -> String {
    let mut text = String::new();
    if let Some(holder) = blocked.holders.first() {
        text = format!(", {}", ends(holder));
    }
    if let Some(position) = blocked.position {
        text.push_str(&format!("; place {position} in the queue"));
    }
    text
}

/// Returns the wait so far, such as `waiting for name:x (write), 12s of 10m 00s`.
fn waiting_for(blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) -> String {
    let time = format!("{} of {}", duration::show(waited), duration::show(limit));
    match blocked {
        None => format!("waiting for a lock, {time}"),
        Some(BlockedRequest {
            resource,
            slots: Some(slots),
            ..
        }) => format!("waiting for {resource} ({slots} at a time), {time}"),
        Some(BlockedRequest { name, mode, .. }) => {
            format!("waiting for {name} ({mode}), {time}")
        }
    }
}

/// Returns all about the wait in one line.
pub fn in_words(blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) -> String {
    let mut text = waiting_for(blocked, waited, limit);
    if let Some(blocked) = blocked {
        if let Some(by) = by(blocked) {
            text.push_str(": ");
            text.push_str(&by);
        }
        text.push_str(&until(blocked));
        if let Some(circle) = &blocked.circle {
            text.push_str(&format!("{IN_CIRCLE}{circle}"));
        }
    }
    text
}

/// Returns the part that changes from second to second, short enough for most terminals.
pub fn in_few_words(blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) -> String {
    let until = blocked.map(until).unwrap_or_default();
    waiting_for(blocked, waited, limit) + &until
}

#[cfg(test)]
pub mod tests {
    use tenure::{Lease, Mode, Resource};

    use super::*;
    use crate::people::tests::lease;

    pub fn blocked(holders: Vec<Lease>, position: Option<usize>) -> BlockedRequest {
        BlockedRequest {
            resource: Resource::parse("x").unwrap(),
            name: "name:x".into(),
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
        blocked.unrecorded = Some("a program that leaves no record; see: fuser /s/x".into());
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
