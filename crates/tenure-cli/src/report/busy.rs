//! Names the holders of a lock that is busy.

use std::fmt::Write as _;

use tenure::{Binding, Error, Lease, duration};

use crate::cli::Slot;
use crate::people::{ends, held_by};

/// The most holders that are named; the rest is counted.
const HOLDERS_SHOWN_MAX: usize = 5;

/// Returns the message of an error. If a lock is busy, it names every holder in full.
pub fn message(error: &Error) -> String {
    let [first, rest @ ..] = error.holders() else {
        return error.to_string();
    };
    // The error itself names the holder of an advisory lock, as the database knows it.
    if is_advisory(error) {
        return error.to_string();
    }
    let held_by = |lease: &Lease| {
        let by = held_by(lease);
        // A lease that ends by itself may be worth the wait.
        match lease.binding {
            Binding::Lease => format!("{by}, {}", ends(lease)),
            Binding::Session => by,
        }
    };
    let resource = &first.resource;
    let document = match error {
        Error::Busy { context, .. } | Error::Timeout { context, .. } => context.document(),
        _ => None,
    };
    let name = document.unwrap_or_else(|| resource.to_string());
    let mut message = match (error, resource.kind()) {
        (Error::Timeout { context, limit, .. }, kind) => {
            let words = context.words_of_timeout();
            let limit = duration::show(*limit);
            let (what, not) = match kind {
                Slot::KIND | Slot::POOL => (format!("no place in {resource}"), ""),
                _ => (name, " not"),
            };
            format!(
                "{words}{what} was{not} free within {limit}: {}",
                held_by(first)
            )
        }
        (_, Slot::KIND | Slot::POOL) => {
            format!("no place in {resource} is free: {}", held_by(first))
        }
        _ => format!("{name} is {}", held_by(first)),
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
    let (Error::Busy { context, .. } | Error::Timeout { context, .. }) = error else {
        return false;
    };
    context.location.starts_with("advisory lock ")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::people::tests::lease;
    use tenure::{LockContext, Mode, Resource};

    /// Returns an error about a lock with so many holders.
    pub fn busy(holders: usize) -> Error {
        let lock_context = LockContext::new(
            Resource::parse("x").unwrap(),
            Mode::Write,
            "file:/s",
            "/s/x",
        );
        Error::Busy {
            context: Box::new(lock_context),
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
