//! The trust in a lock that is held, by the clock.
//!
//! Every 500 ms the server is asked whether the session is still the same. A lock is trusted from
//! the time when the last well-answered probe was *sent*: an answer may lie unread for long, while
//! the process is stopped.
//!
//! | last good probe sent | state |
//! |---|---|
//! | less than 1 s ago | held |
//! | 1 s ago | unknown, until the next good answer |
//! | 3 s ago, or the connection ended, or another session answered | lost, for good |
//!
//! The clock counts time asleep. The state is worked out when asked for, so it is right even if the
//! task that sends the probes (see [`probe`](super::probe)) is delayed.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_os::clock;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// The interval of probes.
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(500);
/// The time without a good answer after which the state is unknown.
const UNKNOWN_AFTER: Duration = Duration::from_secs(1);
/// The time without a good answer after which the lock counts as lost.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(3);

/// The trust in a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardState {
    /// The lock is held.
    Held,
    /// The server has not answered for a second: it may be held or not.
    Unknown,
    /// The lock is gone, and does not come back.
    Lost,
}

/// The knowledge about one lock that is held.
pub(super) struct Liveness {
    /// The time when the grant was answered, in milliseconds since boot.
    granted: u64,
    /// The time when the last well-answered probe was sent, in milliseconds since boot.
    sent: AtomicU64,
    /// True if the name of the connection may show since when the lock is held.
    shown: AtomicBool,
    /// The reason why the lock is lost, if it is.
    lost: OnceLock<String>,
    loss: Notify,
    /// The reason why the connection ended, if it has.
    over: watch::Receiver<Option<String>>,
}

impl Liveness {
    /// Returns a lock proved by an answer to a statement that was sent at `sent`, in milliseconds
    /// since boot.
    pub(super) fn new(sent: u64, over: watch::Receiver<Option<String>>) -> Self {
        Self {
            granted: clock::boot_now(),
            sent: AtomicU64::new(sent),
            shown: AtomicBool::new(false),
            lost: OnceLock::new(),
            loss: Notify::new(),
            over,
        }
    }

    pub(super) fn state(&self) -> GuardState {
        if self.lost.get().is_some() {
            return GuardState::Lost;
        }
        if let Some(reason) = self.over.borrow().clone() {
            self.lose(reason);
            return GuardState::Lost;
        }
        let age = self.age();
        if age >= LOST_AFTER {
            self.lose(no_answer());
            GuardState::Lost
        } else if age >= UNKNOWN_AFTER {
            GuardState::Unknown
        } else {
            GuardState::Held
        }
    }

    /// Returns true if the name of the connection may show since when the lock is held.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Acquire)
    }

    /// Notes that the name shows it. Returns true if that was noted before.
    pub(super) fn mark_shown(&self) -> bool {
        self.shown.swap(true, Ordering::AcqRel)
    }

    /// Returns how long it has been held.
    pub(super) fn held_ms(&self) -> u64 {
        clock::boot_now().saturating_sub(self.granted)
    }

    /// Returns when the last well-answered probe was sent, in milliseconds since boot.
    pub(super) fn proved_at_ms(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Returns why it is lost, if it is.
    pub(super) fn reason(&self) -> Option<String> {
        self.state();
        self.lost.get().cloned()
    }

    /// Waits until it is lost, and returns why.
    pub(super) async fn lost(&self) -> String {
        let mut over = self.over.clone();
        loop {
            // Enabled before the state is read, so that no loss is missed in between.
            let mut lost = pin!(self.loss.notified());
            lost.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            // The pause helps if everything else is gone with its runtime.
            tokio::select! {
                () = lost => {}
                _ = over.changed() => {}
                () = sleep(PROBE_EVERY) => {}
            }
        }
    }

    /// Notes the loss. The first reason stays.
    pub(super) fn lose(&self, reason: String) {
        if self.lost.set(reason).is_ok() {
            self.loss.notify_waiters();
        }
    }

    /// Notes that a probe sent at `sent` was answered well.
    pub(super) fn good(&self, sent: u64) {
        self.sent.fetch_max(sent, Ordering::AcqRel);
    }

    /// Returns the age of the last good probe.
    pub(super) fn age(&self) -> Duration {
        let sent = self.sent.load(Ordering::Acquire);
        Duration::from_millis(clock::boot_now().saturating_sub(sent))
    }
}

/// Returns the reason for a loss by silence.
pub(super) fn no_answer() -> String {
    format!("no answer for {} s", LOST_AFTER.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proved_at(sent: u64) -> (Liveness, watch::Sender<Option<String>>) {
        let (connection, over) = watch::channel(None);
        (Liveness::new(sent, over), connection)
    }

    #[test]
    fn trust_fades_with_the_age_of_the_last_good_question() {
        let now = clock::boot_now();
        let state = |sent| proved_at(sent).0.state();
        assert_eq!(state(now), GuardState::Held);
        assert_eq!(state(now - 1000), GuardState::Unknown);
        assert_eq!(state(now - 2900), GuardState::Unknown);
        assert_eq!(state(now - 3000), GuardState::Lost);
    }

    #[test]
    fn a_connection_that_ended_takes_the_lock_with_it() {
        let (liveness, connection) = proved_at(clock::boot_now());
        connection.send_replace(Some("cut".into()));
        assert_eq!(liveness.state(), GuardState::Lost);
        assert_eq!(liveness.reason().as_deref(), Some("cut"));
    }

    #[test]
    fn unknown_ends_with_a_good_answer_and_lost_never_does() {
        let now = clock::boot_now();
        let (liveness, _connection) = proved_at(now - 1500);
        assert_eq!(liveness.state(), GuardState::Unknown);
        liveness.good(now);
        assert_eq!(liveness.state(), GuardState::Held);
        liveness.lose("cut".into());
        liveness.good(clock::boot_now());
        assert_eq!(liveness.state(), GuardState::Lost);
        assert_eq!(liveness.reason().as_deref(), Some("cut"));
    }
}
