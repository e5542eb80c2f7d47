//! How far a lock in hand can be trusted, by the clock.
//!
//! Every 500 ms the server is asked whether the session is still the same. What counts is when the last question
//! was *sent* that was answered well: an answer may lie unread for long, while the process is stopped.
//!
//! | last good question sent | state |
//! |---|---|
//! | less than 1 s ago | held |
//! | 1 s ago | unknown, until the next good answer |
//! | 3 s ago, or the connection ended, or another session answered | lost, for good |
//!
//! The clock counts time asleep. The state is worked out when asked for, so it is right even where the
//! task that asks the questions (see [`probe`](super::probe)) is held up.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_files::clock;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// How often the server is asked.
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(500);
/// After this long without a good answer nobody knows.
const UNKNOWN_AFTER: Duration = Duration::from_secs(1);
/// After this long without a good answer it counts as lost.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(3);

/// How far a guard can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardState {
    /// The lock is held.
    Held,
    /// The server has not answered for a second: it may be held or not.
    Unknown,
    /// The lock is gone, and does not come back.
    Lost,
}

/// What is known of one lock in hand.
pub(super) struct Standing {
    /// When the grant was answered, in milliseconds since boot.
    granted: u64,
    /// When the last question was sent that was answered well, in milliseconds since boot.
    sent: AtomicU64,
    /// Whether the connection may show since when it holds.
    shown: AtomicBool,
    /// Why it is lost, if it is. A short lock pays for nothing more.
    lost: OnceLock<String>,
    told: Notify,
    /// Whether the connection has ended, and why.
    over: watch::Receiver<Option<String>>,
}

impl Standing {
    /// Known to be held by an answer to a question sent then, in milliseconds since boot.
    pub(super) fn new(sent: u64, over: watch::Receiver<Option<String>>) -> Self {
        Self {
            granted: clock::boot_now(),
            sent: AtomicU64::new(sent),
            shown: AtomicBool::new(false),
            lost: OnceLock::new(),
            told: Notify::new(),
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

    /// Whether the connection may show since when it holds.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Acquire)
    }

    /// Notes that it does, and answers whether it was noted before.
    pub(super) fn show(&self) -> bool {
        self.shown.swap(true, Ordering::AcqRel)
    }

    /// How long it has been held.
    pub(super) fn held_ms(&self) -> u64 {
        clock::boot_now().saturating_sub(self.granted)
    }

    /// Why it is lost, if it is.
    pub(super) fn reason(&self) -> Option<String> {
        self.state();
        self.lost.get().cloned()
    }

    /// Waits until it is lost, and says why.
    pub(super) async fn lost(&self) -> String {
        let mut over = self.over.clone();
        loop {
            // Before it is looked at, so that no loss is missed in between.
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            // The pause is for when everything else is gone with its runtime.
            tokio::select! {
                () = told => {}
                _ = over.changed() => {}
                () = sleep(PROBE_EVERY) => {}
            }
        }
    }

    /// Notes the loss. The first reason stays.
    pub(super) fn lose(&self, reason: String) {
        if self.lost.set(reason).is_ok() {
            self.told.notify_waiters();
        }
    }

    /// A question sent then was answered well.
    pub(super) fn good(&self, sent: u64) {
        self.sent.fetch_max(sent, Ordering::AcqRel);
    }

    /// How old the last good question is.
    pub(super) fn age(&self) -> Duration {
        let sent = self.sent.load(Ordering::Acquire);
        Duration::from_millis(clock::boot_now().saturating_sub(sent))
    }
}

/// Why a lock is lost that nobody answered for.
pub(super) fn no_answer() -> String {
    format!("no answer for {} s", LOST_AFTER.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proved_at(sent: u64) -> (Standing, watch::Sender<Option<String>>) {
        let (connection, over) = watch::channel(None);
        (Standing::new(sent, over), connection)
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
        let (standing, connection) = proved_at(clock::boot_now());
        connection.send_replace(Some("cut".into()));
        assert_eq!(standing.state(), GuardState::Lost);
        assert_eq!(standing.reason().as_deref(), Some("cut"));
    }

    #[test]
    fn unknown_ends_with_a_good_answer_and_lost_never_does() {
        let now = clock::boot_now();
        let (standing, _connection) = proved_at(now - 1500);
        assert_eq!(standing.state(), GuardState::Unknown);
        standing.good(now);
        assert_eq!(standing.state(), GuardState::Held);
        standing.lose("cut".into());
        standing.good(clock::boot_now());
        assert_eq!(standing.state(), GuardState::Lost);
        assert_eq!(standing.reason().as_deref(), Some("cut"));
    }
}
