//! Leases in words: who holds what, since when, and whether that process is still there.

use std::time::Duration;

use tenure::{Keeper, Lease, LeaseId, clock, duration};

/// The name of this machine.
pub fn this_host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// How long a lease has been held.
pub fn age(lease: &Lease) -> Duration {
    clock::now().since(lease.acquired_at)
}

/// What is said of a lease in [`outlived`].
pub const OUTLIVED: &str = "(run is gone; its command goes on)";

/// The leases whose process is gone although they are still held: `run` was killed and its
/// command, which inherited the lock, goes on.
///
/// A `run` that just ended is gone too, and so is its lease. So each of them is looked up
/// again after its process was seen to be gone, and counts only if it is still there.
pub async fn outlived(keeper: &Keeper, leases: &[Lease]) -> Vec<LeaseId> {
    let mut outlived = Vec::new();
    for lease in leases.iter().filter(|lease| process_is_gone(lease)) {
        // Where it cannot be looked up, nothing is said.
        let held = keeper.holders(&lease.resource).await.unwrap_or_default();
        if held.iter().any(|held| held.lease == lease.lease) {
            outlived.push(lease.lease.clone());
        }
    }
    outlived
}

/// Whether the process that took the lease is gone.
///
/// Only for people. A process id proves nothing, since it may be in use again.
pub fn process_is_gone(lease: &Lease) -> bool {
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
    let mut text = format!(
        "held ({}) by {} for {}: pid {} on {}, \"{}\"",
        lease.mode,
        lease.owner,
        duration::show(age(lease)),
        lease.pid,
        visible(&lease.host),
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

/// When a lease ends.
pub fn ends(lease: &Lease) -> String {
    let now = clock::now();
    match lease.expires_at {
        None => "until it is released".into(),
        Some(at) => format!("at most {} more", duration::show(at.since(now))),
    }
}

/// Makes text from others safe to show: nothing in it moves the cursor or turns the
/// direction of writing.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if hidden(c) { '?' } else { c })
        .collect()
}

/// How many columns a character takes on a terminal; East Asian ones and emoji take two.
fn columns_of(c: char) -> usize {
    let wide = matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}');
    if wide { 2 } else { 1 }
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Cuts a text to a number of columns, with a mark where something is missing.
pub fn cut(text: &str, columns_max: usize) -> String {
    if columns(text) <= columns_max {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += columns_of(c);
        if used >= columns_max {
            break;
        }
        cut.push(c);
    }
    if columns_max > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use tenure::{
        Binding, LeaseState, Mode, Options, Owner, Resource, SessionId, SessionOptions, Timestamp,
        Token,
    };

    /// A lease of someone else, taken 185 s ago by a process that never existed.
    pub fn lease(resource: &str) -> Lease {
        let now = clock::now();
        Lease {
            lease: LeaseId::parse("l1").unwrap(),
            resource: Resource::parse(resource).unwrap(),
            mode: Mode::Write,
            owner: Owner::parse("ana@desk").unwrap(),
            session: SessionId::parse("s1").unwrap(),
            token: Token::new(7).unwrap(),
            acquired_at: Timestamp::from_millis(now.as_millis() - 185_000),
            expires_at: None,
            heartbeat_at: now,
            binding: Binding::Session,
            state: LeaseState::Held,
            pid: 4242,
            host: "desk".into(),
            command: "cargo test".into(),
            purpose: Some("nightly".into()),
            metadata: None,
        }
    }

    #[test]
    fn a_holder_is_named_with_everything_a_person_needs() {
        assert_eq!(
            held_by(&lease("x"), &[]),
            "held (write) by ana@desk for 3m 05s: pid 4242 on desk, \"cargo test\", purpose: nightly"
        );
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

    #[test]
    fn text_from_others_cannot_steer_the_terminal() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b\n"), "a?[2J?b?");
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("abc", 0), "");
    }
}
