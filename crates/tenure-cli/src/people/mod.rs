//! Leases in words: the holder, its time, and the sign of life of its process.

mod ask;
mod record;
mod text;

use crate::report::in_words;
use std::time::Duration;

use tenure::{Binding, Lease, LeaseState, clock, duration};

use crate::cli::Slot;
pub use ask::{can_ask, is_confirmed};
pub use record::{ago, record};
pub use tenure_os::platform::host_name as this_host;
pub use tenure_service::doctor::counted;
pub use tenure_service::waiting::is_run_unseen;
pub use text::{columns, cut, cut_in_the_middle, visible, visible_lines, without_long_words};

/// Returns how long a lease has been held.
pub fn age(lease: &Lease) -> Duration {
    clock::now().since(lease.acquired_at)
}

/// Returns the end of a lease in words.
pub fn ends(lease: &Lease) -> String {
    in_words(&tenure_service::waiting::ends(lease))
}

/// Returns the words about the processes of a lease if [`is_run_unseen`].
pub fn run_unseen(lease: &Lease) -> Option<String> {
    is_run_unseen(lease).then(|| match lease.command_pid {
        Some(pid) => format!("(run not seen here: its command goes on, pid {pid})"),
        None => {
            "(run not seen here: its command goes on, or it is in another PID namespace)".into()
        }
    })
}

/// Returns the holder and its process:
/// `held (write) by ana@desk for 3m 05s: pid 4242 on desk, "cargo test", purpose: nightly`.
pub fn held_by(lease: &Lease) -> String {
    let host = visible(&lease.host);
    let by = match lease.binding {
        Binding::Session => format!("pid {} on {host}", lease.pid),
        // The process that took the lease is usually gone; its number would only mislead.
        Binding::Lease => format!("lease {}, taken on {host}", lease.lease),
    };
    let mut text = format!(
        "{} {} for {}: {by}, \"{}\"",
        state_in_words(lease),
        lease.owner,
        duration::show(age(lease)),
        visible(&lease.command),
    );
    if let Some(purpose) = &lease.purpose {
        text.push_str(", purpose: ");
        text.push_str(&visible(purpose));
    }
    if let Some(unseen) = run_unseen(lease) {
        text.push(' ');
        text.push_str(&unseen);
    }
    text
}

/// Returns the state and the mode, such as `held (write) by`. The mode of a slot or a pool is left out.
fn state_in_words(lease: &Lease) -> String {
    let mode = match lease.resource.kind() {
        Slot::KIND | Slot::POOL => String::new(),
        _ => format!(" ({})", lease.mode),
    };
    match lease.state {
        LeaseState::Offered => format!("offered{mode} to"),
        LeaseState::Revoking => format!("held{mode}, but being broken, by"),
        LeaseState::Expired => format!("held{mode}, but expired, by"),
        LeaseState::Unknown => format!("held{mode}, perhaps by nobody any more, by"),
        _ => format!("held{mode} by"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use tenure::store::Asker;
    use tenure::{LeaseId, Mode, Owner, Resource, SessionId, Timestamp, Token};

    /// Returns a lease of another owner, taken 185 s ago by a process that never existed.
    pub fn lease(resource: &str) -> Lease {
        let now = clock::now();
        let asker = Asker {
            session: SessionId::parse("s1").unwrap(),
            owner: Owner::parse("ana@desk").unwrap(),
            pid: 4242,
            host: "desk".into(),
            command: "cargo test".into(),
            agent: None,
        };
        let mut lease = Lease::granted(
            LeaseId::parse("l1").unwrap(),
            Resource::parse(resource).unwrap(),
            Mode::Write,
            Token::new(7).unwrap(),
            Timestamp::from_millis(now.as_millis() - 185_000),
            asker,
        );
        lease.heartbeat_at = now;
        lease.purpose = Some("nightly".into());
        lease
    }

    #[test]
    fn a_holder_is_named_with_everything_a_person_needs() {
        assert_eq!(
            held_by(&lease("x")),
            "held (write) by ana@desk for 3m 05s: pid 4242 on desk, \"cargo test\", purpose: nightly"
        );
    }

    #[test]
    fn a_lease_of_its_own_is_named_by_its_id_and_says_when_it_ends() {
        let mut own = lease("x");
        own.binding = Binding::Lease;
        own.expires_at = Some(clock::now().after(Duration::from_millis(61_900)));
        assert_eq!(
            held_by(&own),
            "held (write) by ana@desk for 3m 05s: lease l1, taken on desk, \"cargo test\", \
             purpose: nightly"
        );
        assert_eq!(ends(&own), "at most 1m 01s more unless it is renewed");
    }

    #[test]
    fn what_is_not_simply_held_is_said_to_be_so() {
        for (state, standing, end) in [
            (LeaseState::Offered, "offered (write) to ana", "released"),
            (LeaseState::Revoking, "being broken, by ana", "10s"),
            (LeaseState::Expired, "expired, by ana", "over"),
            (LeaseState::Unknown, "perhaps by nobody", "tenure break l1"),
        ] {
            let mut lease = lease("x");
            lease.state = state;
            let words = held_by(&lease);
            assert!(words.contains(standing), "{words}");
            assert!(ends(&lease).contains(end), "{}", ends(&lease));
        }
        assert!(held_by(&lease("slot:build")).starts_with("held by ana@desk"));
    }

    #[test]
    fn a_lease_of_its_own_belongs_to_no_process() {
        let mut own = lease("x");
        own.host = this_host();
        own.pid = i32::MAX.cast_unsigned();
        assert!(is_run_unseen(&own));
        assert!(held_by(&own).ends_with("goes on, or it is in another PID namespace)"));
        own.command_pid = Some(4711);
        assert!(held_by(&own).ends_with("goes on, pid 4711)"));
        own.binding = Binding::Lease;
        assert!(!is_run_unseen(&own));
    }

    #[test]
    fn a_process_on_another_machine_is_never_called_unseen() {
        let mut elsewhere = lease("x");
        elsewhere.pid = i32::MAX.cast_unsigned();
        elsewhere.host = format!("not-{}", this_host());
        assert!(!is_run_unseen(&elsewhere));
    }
}
