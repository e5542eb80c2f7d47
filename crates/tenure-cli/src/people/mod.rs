//! Leases in words: who holds what, since when, and whether that process is still there.

mod ask;
mod record;
mod text;

use std::time::Duration;

use tenure::{Binding, Keeper, Lease, LeaseId, LeaseState, clock, duration};

use crate::cli::Slot;
pub use ask::{agreed, can_ask};
pub use record::{ago, record};
pub use text::{columns, cut, visible, visible_lines};

/// Returns the name of this machine.
pub fn this_host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Returns how long a lease has been held.
pub fn age(lease: &Lease) -> Duration {
    clock::now().since(lease.acquired_at)
}

/// What is said of a lease in [`outlived`].
pub const OUTLIVED: &str = "(run is gone; its command goes on)";

/// Returns the leases whose process is gone although they are still held: `run` was killed and its
/// command, which inherited the lock, goes on. A lease of `tenure lock` belongs to no process.
///
/// A `run` that just ended is gone too, and so is its lease. So each of them is looked up
/// again after its process was seen to be gone, and counts only if it is still there.
pub async fn outlived(keeper: &Keeper, leases: &[Lease]) -> Vec<LeaseId> {
    let mut outlived = Vec::new();
    for lease in leases.iter().filter(|lease| process_is_gone(lease)) {
        // Where it cannot be looked up, nothing is said.
        let held = keeper.holders(&lease.resource).await.unwrap_or_default();
        let mut held = held.iter().filter(|held| held.lease == lease.lease);
        if held.any(|held| !held.foreign_pid) {
            outlived.push(lease.lease.clone());
        }
    }
    outlived
}

/// Returns true if the process that holds the lease is gone.
///
/// Only for people. A process id proves nothing, since it may be in use again; and in another PID
/// namespace it is the id of another process or of none. Whether it is of another one is known of
/// leases that were listed.
pub fn process_is_gone(lease: &Lease) -> bool {
    if lease.binding == Binding::Lease || lease.foreign_pid {
        return false;
    }
    let pid = i32::try_from(lease.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let Some(pid) = pid else {
        return false;
    };
    let answer = rustix::process::test_kill_process(pid);
    answer == Err(rustix::io::Errno::SRCH) && lease.host == this_host()
}

/// `held (write) by ana@desk for 3m 05s: pid 4242 on desk, "cargo test", purpose: nightly`.
///
/// `outlived` are the leases of which [`OUTLIVED`] is said.
pub fn held_by(lease: &Lease, outlived: &[LeaseId]) -> String {
    let host = visible(&lease.host);
    let by = match lease.binding {
        Binding::Session if lease.foreign_pid => {
            format!("pid {} in a PID namespace of its own on {host}", lease.pid)
        }
        Binding::Session => format!("pid {} on {host}", lease.pid),
        // The process that took it is gone as a rule; its number would only mislead.
        Binding::Lease => format!("lease {}, taken on {host}", lease.lease),
    };
    let mut text = format!(
        "{} {} for {}: {by}, \"{}\"",
        standing(lease),
        lease.owner,
        duration::show(age(lease)),
        visible(&lease.command),
    );
    if let Some(purpose) = &lease.purpose {
        text.push_str(", purpose: ");
        text.push_str(&visible(purpose));
    }
    if outlived.contains(&lease.lease) {
        text.push(' ');
        text.push_str(OUTLIVED);
    }
    text
}

/// `held (write) by`, or whatever else its state is. Slots have no mode worth telling.
fn standing(lease: &Lease) -> String {
    let mode = match lease.resource.kind() {
        Slot::KIND => String::new(),
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

/// Returns when a lease ends.
pub fn ends(lease: &Lease) -> String {
    let now = clock::now();
    match (lease.state, lease.expires_at) {
        (LeaseState::Revoking, _) => "until it has stopped, for 10s at most".into(),
        (LeaseState::Unknown, _) => {
            let id = &lease.lease;
            format!("until a person ends it with: tenure break {id} --reason TEXT")
        }
        (LeaseState::Expired, _) => "its time is over".into(),
        (_, None) => "until it is released".into(),
        (_, Some(at)) => {
            let more = duration::show(at.since(now));
            format!("at most {more} more unless it is renewed")
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use tenure::{
        Asker, Mode, Options, Owner, Resource, SessionId, SessionOptions, Timestamp, Token,
    };

    /// Returns a lease of someone else, taken 185 s ago by a process that never existed.
    pub fn lease(resource: &str) -> Lease {
        let now = clock::now();
        let asker = Asker {
            session: SessionId::parse("s1").unwrap(),
            owner: Owner::parse("ana@desk").unwrap(),
            pid: 4242,
            host: "desk".into(),
            command: "cargo test".into(),
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
            held_by(&lease("x"), &[]),
            "held (write) by ana@desk for 3m 05s: pid 4242 on desk, \"cargo test\", purpose: nightly"
        );
    }

    #[test]
    fn a_lease_of_its_own_is_named_by_its_id_and_says_when_it_ends() {
        let mut own = lease("x");
        own.binding = Binding::Lease;
        own.expires_at = Some(clock::now().after(Duration::from_millis(61_900)));
        assert_eq!(
            held_by(&own, &[]),
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
            let words = held_by(&lease, &[]);
            assert!(words.contains(standing), "{words}");
            assert!(ends(&lease).contains(end), "{}", ends(&lease));
        }
        assert!(held_by(&lease("slot:build"), &[]).starts_with("held by ana@desk"));
    }

    #[test]
    fn a_lease_of_its_own_belongs_to_no_process() {
        let mut own = lease("x");
        own.host = this_host();
        own.pid = i32::MAX.cast_unsigned();
        assert!(process_is_gone(&own));
        own.binding = Binding::Lease;
        assert!(!process_is_gone(&own));
    }

    #[tokio::test]
    async fn only_a_lease_that_is_still_held_without_its_process_outlived_it() {
        let keeper = Keeper::open("memory:").await.unwrap();
        let owner = SessionOptions::new(Owner::parse("ana").unwrap());
        let session = keeper.session(owner).await.unwrap();
        let resource = Resource::parse("x").unwrap();
        let options = Options::default();
        let guard = session.acquire(&resource, Mode::Write, &options).await;
        let guard = guard.unwrap();
        let mut held = guard.lease();
        assert!(outlived(&keeper, &[held.clone()]).await.is_empty());
        held.host = this_host();
        held.pid = i32::MAX.cast_unsigned();
        let found = outlived(&keeper, &[held.clone()]).await;
        assert_eq!(found, [held.lease.clone()]);
        assert!(held_by(&held, &found).ends_with(OUTLIVED));
        guard.release().await.unwrap();
        assert!(
            outlived(&keeper, &[held]).await.is_empty(),
            "its run ended, and the lease with it"
        );
    }

    #[test]
    fn a_process_on_another_machine_is_never_called_gone() {
        let mut elsewhere = lease("x");
        elsewhere.pid = i32::MAX.cast_unsigned();
        elsewhere.host = format!("not-{}", this_host());
        assert!(!process_is_gone(&elsewhere));
    }
}
