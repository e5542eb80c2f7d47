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
//! task that asks the questions is held up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_files::clock;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_postgres::{Client, Statement};

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
    /// Milliseconds since boot.
    sent: AtomicU64,
    lost: watch::Sender<Option<String>>,
}

/// What a probe needs.
pub(super) struct Probe {
    pub(super) client: Arc<Client>,
    pub(super) statement: Statement,
    pub(super) pid: i32,
    pub(super) over: watch::Receiver<Option<String>>,
    /// Closes the socket, so that a server that can still be reached gives the lock to others.
    pub(super) cutter: Option<tokio::task::AbortHandle>,
}

impl Standing {
    /// Known to be held by an answer to a question sent then, in milliseconds since boot.
    pub(super) fn new(sent: u64) -> Self {
        Self {
            sent: AtomicU64::new(sent),
            lost: watch::Sender::new(None),
        }
    }

    pub(super) fn state(&self) -> GuardState {
        if self.lost.borrow().is_some() {
            return GuardState::Lost;
        }
        let age = self.age();
        if age >= LOST_AFTER {
            self.lose(format!("no answer for {} s", LOST_AFTER.as_secs()));
            GuardState::Lost
        } else if age >= UNKNOWN_AFTER {
            GuardState::Unknown
        } else {
            GuardState::Held
        }
    }

    /// Why it is lost, if it is.
    pub(super) fn reason(&self) -> Option<String> {
        self.state();
        self.lost.borrow().clone()
    }

    /// Waits until it is lost, and says why.
    pub(super) async fn lost(&self) -> String {
        let mut lost = self.lost.subscribe();
        loop {
            if let Some(reason) = self.reason() {
                return reason;
            }
            // The task that probes says so; the pause is for when it is gone with its runtime.
            tokio::select! {
                _ = lost.changed() => {}
                () = sleep(PROBE_EVERY) => {}
            }
        }
    }

    /// Notes the loss. The first reason stays.
    pub(super) fn lose(&self, reason: String) {
        self.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            if first {
                *lost = Some(reason);
            }
            first
        });
    }

    fn good(&self, sent: u64) {
        self.sent.fetch_max(sent, Ordering::AcqRel);
    }

    fn age(&self) -> Duration {
        let sent = self.sent.load(Ordering::Acquire);
        Duration::from_millis(clock::boot_now().saturating_sub(sent))
    }
}

/// Asks again and again, until the lock is lost.
pub(super) async fn watch_over(standing: Arc<Standing>, mut probe: Probe) {
    let reason = loop {
        tokio::select! {
            reason = ended(&mut probe.over) => break reason,
            () = sleep(PROBE_EVERY) => {}
        }
        let sent = clock::boot_now();
        let asked = probe.client.query_one(&probe.statement, &[]);
        let rest = LOST_AFTER.saturating_sub(standing.age());
        let answer = tokio::select! {
            answer = asked => answer,
            reason = ended(&mut probe.over) => break reason,
            () = sleep(rest) => break format!("no answer for {} s", LOST_AFTER.as_secs()),
        };
        match answer.map(|row| row.get::<_, i32>(0)) {
            Ok(pid) if pid == probe.pid => standing.good(sent),
            Ok(pid) => break format!("session {} became {pid}", probe.pid),
            Err(error) => break crate::fault::message(&error),
        }
        // A good answer that came too late is too late.
        if let Some(reason) = standing.reason() {
            break reason;
        }
    };
    standing.lose(reason);
    if let Some(cutter) = probe.cutter {
        cutter.abort();
    }
}

async fn ended(over: &mut watch::Receiver<Option<String>>) -> String {
    match over.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the connection was closed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_fades_with_the_age_of_the_last_good_question() {
        let now = clock::boot_now();
        assert_eq!(Standing::new(now).state(), GuardState::Held);
        assert_eq!(Standing::new(now - 1000).state(), GuardState::Unknown);
        assert_eq!(Standing::new(now - 2900).state(), GuardState::Unknown);
        assert_eq!(Standing::new(now - 3000).state(), GuardState::Lost);
    }

    #[test]
    fn unknown_ends_with_a_good_answer_and_lost_never_does() {
        let now = clock::boot_now();
        let standing = Standing::new(now - 1500);
        assert_eq!(standing.state(), GuardState::Unknown);
        standing.good(now);
        assert_eq!(standing.state(), GuardState::Held);
        standing.lose("cut".into());
        standing.good(clock::boot_now());
        assert_eq!(standing.state(), GuardState::Lost);
        assert_eq!(standing.reason().as_deref(), Some("cut"));
    }
}
