//! Someone is in the way: who, in full.

use std::fmt::Write as _;

use tenure::{Binding, Error, Lease, LeaseId, Settings, blocking, duration};

use crate::cli::Slot;
use crate::people::{ends, held_by, process_is_gone};

/// More holders than this are counted, not named.
const HOLDERS_SHOWN_MAX: usize = 5;

/// Names every holder in full where someone is in the way.
pub fn message(error: &Error) -> String {
    let [first, rest @ ..] = error.holders() else {
        return error.to_string();
    };
    // What the database knows of the holder of an advisory lock is said by the error.
    if is_advisory(error) {
        return error.to_string();
    }
    let outlived = outlived(error);
    let held_by = |lease: &Lease| {
        let by = held_by(lease, &outlived);
        // What ends by itself may be worth the wait.
        match lease.binding {
            Binding::Lease => format!("{by}, {}", ends(lease)),
            Binding::Session => by,
        }
    };
    let resource = &first.resource;
    let mut message = match (error, resource.kind()) {
        (Error::Timeout { limit, .. }, kind) => {
            let limit = duration::show(*limit);
            let what = match kind {
                Slot::KIND => format!("no place in {resource}"),
                _ => resource.to_string(),
            };
            let not = if kind == Slot::KIND { "" } else { " not" };
            format!("{what} was{not} free within {limit}: {}", held_by(first))
        }
        (_, Slot::KIND) => format!("no place in {resource} is free: {}", held_by(first)),
        _ => format!("{resource} is {}", held_by(first)),
    };
    let shown = rest.iter().take(HOLDERS_SHOWN_MAX - 1);
    for holder in shown {
        let _ = write!(message, "\n  and {}", held_by(holder));
    }
    if rest.len() >= HOLDERS_SHOWN_MAX {
        let _ = write!(
            message,
            "\n  and by {} more",
            rest.len() + 1 - HOLDERS_SHOWN_MAX
        );
    }
    message
}

fn is_advisory(error: &Error) -> bool {
    let (Error::Busy { place, .. } | Error::Timeout { place, .. }) = error else {
        return false;
    };
    place.location.starts_with("advisory lock ")
}

/// The holders whose `run` is gone while the lease is still held, which is looked up anew: a
/// `run` that ended since the error arose is gone as well.
fn outlived(error: &Error) -> Vec<LeaseId> {
    let (Error::Busy { place, holders } | Error::Timeout { place, holders, .. }) = error else {
        return Vec::new();
    };
    if !holders.iter().any(process_is_gone) {
        return Vec::new();
    }
    let settings = Settings {
        // Only looked at, never locked.
        trust_flock: true,
        ..Settings::default()
    };
    let keeper = blocking::Keeper::open_with(&place.store, settings);
    let held = keeper.and_then(|keeper| keeper.holders(&place.resource));
    // Where it cannot be looked up, nothing is said.
    let held = held.unwrap_or_default();
    let gone = holders.iter().filter(|lease| process_is_gone(lease));
    gone.map(|lease| lease.lease.clone())
        .filter(|gone| held.iter().any(|held| held.lease == *gone))
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::people::tests::lease;
    use tenure::{Mode, Place, Resource};

    /// Held by so many.
    pub fn busy(holders: usize) -> Error {
        let place = Place {
            resource: Resource::parse("x").unwrap(),
            mode: Mode::Write,
            store: "file:/s".into(),
            location: "/s/x".into(),
        };
        Error::Busy {
            place: Box::new(place),
            holders: vec![lease("x"); holders],
        }
    }

    #[test]
    fn busy_names_the_holder_in_one_line() {
        let said = message(&busy(1));
        assert_eq!(
            said,
            "name:x is held (write) by ana@desk for 3m 05s: pid 4242 on desk, \"cargo test\", purpose: nightly"
        );
    }

    #[test]
    fn a_slot_is_a_place_among_others() {
        let mut error = busy(2);
        if let Error::Busy { holders, .. } = &mut error {
            holders.fill(lease("slot:build"));
        }
        let said = message(&error);
        let start = "no place in slot:build is free: held by ana@desk for 3m 05s: pid 4242";
        assert!(said.starts_with(start), "{said}");
        assert!(said.contains("\n  and held by ana@desk"), "{said}");
    }

    #[test]
    fn many_holders_are_named_up_to_a_limit_and_counted_beyond() {
        let said = message(&busy(9));
        assert_eq!(said.lines().count(), HOLDERS_SHOWN_MAX + 1);
        assert!(said.ends_with("and by 4 more"), "{said}");
        assert_eq!(message(&busy(5)).lines().count(), 5);
    }
}
