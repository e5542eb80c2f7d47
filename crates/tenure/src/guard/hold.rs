//! The state of a lock that is held: its lease, and how far it can be trusted.
//!
//! # Invariants
//!
//! - Lost is final. Unknown and doubt last until the next good answer.
//! - A lease that expires is held only while its time is good, whatever the store answered.
//! - Nothing here keeps the lock: only the guard does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::decide::Millis;
use tenure_core::internal::lock;
use tenure_core::{
    Error, Lease, LeaseId, LockContext, Resource, Result, RetryPolicy, Store, duration,
};
use tenure_os::clock;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::trust::{Phase, Trust};
use super::{Doubt, GuardState};
use crate::retry::retry;

/// The pause before a renewal that proves a grant is tried again.
const PROVE_PAUSE: Duration = Duration::from_millis(50);

/// The state that a guard shares with its renewal and with the blocking interface.
pub(crate) struct Hold {
    pub(super) store: Arc<dyn Store>,
    pub(crate) id: LeaseId,
    pub(crate) resource: Resource,
    pub(super) lease: Mutex<Lease>,
    pub(super) retry: Option<RetryPolicy>,
    /// `None` if the lease lasts for as long as its session.
    trust: Option<Trust>,
    state: watch::Sender<HoldState>,
    /// The checks that the renewal makes of it.
    pub(crate) checks: Mutex<Checks>,
}

/// The checks of one lock, in milliseconds since boot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checks {
    /// The time when the last check began.
    pub(crate) begun: Option<Millis>,
    /// True until that check has ended.
    pub(crate) under_way: bool,
    /// True until the check that decides after a sleep has ended.
    pub(crate) last_try: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HoldState {
    Held,
    Unknown(String),
    Doubt(String),
    Lost(String),
}

impl Hold {
    /// Returns a lock that was requested at `asked`.
    pub(super) fn new(
        store: Arc<dyn Store>,
        lease: Lease,
        retry: Option<RetryPolicy>,
        asked: Millis,
    ) -> Self {
        let ttl = store.capabilities().ttl;
        Self {
            store,
            id: lease.lease.clone(),
            resource: lease.resource.clone(),
            lease: Mutex::new(lease),
            retry,
            trust: ttl.map(|ttl| Trust::new(ttl, asked)),
            state: watch::Sender::new(HoldState::Held),
            checks: Mutex::default(),
        }
    }

    pub(crate) fn lease(&self) -> Lease {
        lock(&self.lease).clone()
    }

    pub(crate) fn state(&self) -> GuardState {
        let good = self.phase(clock::boot_now()) == Phase::Good;
        match *self.state.borrow() {
            HoldState::Held if good => GuardState::Held,
            HoldState::Held | HoldState::Unknown(_) | HoldState::Doubt(_) => GuardState::Unknown,
            HoldState::Lost(_) => GuardState::Lost,
        }
    }

    /// Returns the time that it is known to last, or `None` if it lasts for as long as its session.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        let trust = self.trust.as_ref()?;
        Some(trust.left(clock::boot_now()))
    }

    /// Returns the time at which it is given up unless it is renewed, or `None` if it lasts for as
    /// long as its session.
    pub(crate) fn over_at(&self) -> Option<Millis> {
        self.trust.as_ref().map(Trust::over_at)
    }

    pub(crate) fn phase(&self, now: Millis) -> Phase {
        let trust = self.trust.as_ref();
        trust.map_or(Phase::Good, |trust| trust.phase(now))
    }

    pub(crate) async fn renew(&self) -> Result<()> {
        self.check()?;
        let asked = Mutex::new(clock::boot_now());
        let ask = || {
            *lock(&asked) = clock::boot_now();
            self.store.renew(&self.id)
        };
        let answer = retry(self.retry.as_ref(), ask).await;
        let asked = *lock(&asked);
        self.note(asked, &answer);
        // A lease that is over is a lost lock.
        self.check()?;
        answer.map(drop)
    }

    /// Renews a lease whose time was used up by the wait for its grant: the store may have granted
    /// it at any moment of the wait. A good answer is a proof, however late it comes. Gives up
    /// after the time of one lease.
    pub(crate) async fn prove(&self) -> Result<()> {
        let trust = self.trust.as_ref();
        let Some(old) = trust.filter(|trust| trust.is_old(clock::boot_now())) else {
            return Ok(());
        };
        let ask = async {
            loop {
                match self.renew().await {
                    Err(error) if error.is_passing() => sleep(PROVE_PAUSE).await,
                    answer => return answer,
                }
            }
        };
        timeout(old.ttl, ask)
            .await
            .unwrap_or_else(|_| Err(self.silence()))
    }

    pub(crate) async fn lost(&self) -> Error {
        self.wait_for(|_| self.check().err()).await
    }

    pub(crate) async fn in_doubt(&self) -> Doubt {
        let doubt = |state: &HoldState| match state {
            HoldState::Held | HoldState::Unknown(_) => None,
            HoldState::Doubt(problem) | HoldState::Lost(problem) => Some(self.doubt(problem)),
        };
        self.wait_for(doubt).await
    }

    async fn wait_for<T>(&self, look: impl Fn(&HoldState) -> Option<T>) -> T {
        let mut state = self.state.subscribe();
        loop {
            let seen = state.borrow_and_update().clone();
            if let Some(found) = look(&seen) {
                return found;
            }
            if state.changed().await.is_err() {
                // The sender is a field of this value, so it cannot be gone.
                std::future::pending::<()>().await;
            }
        }
    }

    fn doubt(&self, problem: &str) -> Doubt {
        let now = clock::boot_now();
        let trust = self.trust.as_ref();
        Doubt {
            context: self.context(),
            unanswered: trust.map_or(Duration::ZERO, |trust| trust.unanswered(now)),
            lost_in: trust.map_or(Duration::ZERO, |trust| trust.until_over(now)),
            problem: problem.to_owned(),
        }
    }

    /// Returns an error if the lock is lost.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.state.borrow() {
            HoldState::Lost(reason) => Err(Error::lost(self.context(), reason.clone())),
            _ => Ok(()),
        }
    }

    pub(super) fn context(&self) -> Box<LockContext> {
        let mode = lock(&self.lease).mode;
        self.store.context_of(&self.resource, mode)
    }

    /// Returns the error for a store that did not answer.
    pub(crate) fn silence(&self) -> Error {
        Error::Unreachable {
            store: self.store.url().to_owned(),
            problem: "no answer in time".into(),
        }
    }

    /// Notes the answer to a check that was sent at `asked`.
    pub(crate) fn note(&self, asked: Millis, answer: &Result<Option<Duration>>) {
        match answer {
            Ok(lasts) => self.note_good(asked, *lasts),
            Err(error) => {
                self.set_state(HoldState::Unknown(error.to_string()));
                self.note_loss(error);
            }
        }
    }

    fn note_good(&self, asked: Millis, lasts: Option<Duration>) {
        // A lost lock gets no new time, or it would be checked for ever.
        if matches!(*self.state.borrow(), HoldState::Lost(_)) {
            return;
        }
        let now = clock::now();
        let mut lease = lock(&self.lease);
        lease.heartbeat_at = now;
        if let (Some(trust), Some(lasts)) = (&self.trust, lasts) {
            trust.renewed(asked, lasts);
            // For people, by the wall clock of this machine.
            lease.expires_at = Some(now.after(trust.left(clock::boot_now())));
        }
        drop(lease);
        // A good answer that comes too late does not count.
        if self.phase(clock::boot_now()) == Phase::Good {
            self.set_state(HoldState::Held);
        }
    }

    /// Notes the loss of the lock if the error means that.
    pub(crate) fn note_loss(&self, error: &Error) {
        if let Error::Lost { reason, .. } | Error::LeaseOver { reason, .. } = error {
            self.set_state(HoldState::Lost(reason.clone()));
        }
    }

    /// Notes that an answer is overdue.
    pub(crate) fn note_silence(&self) {
        if *self.state.borrow() == HoldState::Held {
            self.set_state(HoldState::Unknown(self.silence().to_string()));
        }
    }

    /// Notes that two thirds of the lease's time are used up.
    pub(crate) fn note_doubt(&self) {
        let problem = self.problem();
        self.set_state(HoldState::Doubt(problem));
    }

    /// Notes that the lock is lost because its time is used up.
    pub(crate) fn note_over(&self) {
        let unanswered = self
            .trust
            .as_ref()
            .map_or(Duration::ZERO, |trust| trust.unanswered(clock::boot_now()));
        let reason = format!(
            "it could not be renewed for {}: {}",
            duration::show(unanswered),
            self.problem()
        );
        self.set_state(HoldState::Lost(reason));
    }

    /// Returns the last error, in words.
    fn problem(&self) -> String {
        match &*self.state.borrow() {
            HoldState::Held => self.silence().to_string(),
            HoldState::Unknown(problem) | HoldState::Doubt(problem) | HoldState::Lost(problem) => {
                problem.clone()
            }
        }
    }

    fn set_state(&self, now: HoldState) {
        self.state.send_if_modified(|state| {
            let now = match (&*state, now) {
                // Lost is final: callers that were told have stopped relying on the lock.
                (HoldState::Lost(_), _) => return false,
                // One more failure does not end the doubt.
                (HoldState::Doubt(_), HoldState::Unknown(problem)) => HoldState::Doubt(problem),
                (_, now) => now,
            };
            let changes = *state != now;
            *state = now;
            changes
        });
    }
}
