//! What is known of a lock in hand: its lease, and how far it can be trusted.
//!
//! # Invariants
//!
//! - Lost is final. Unknown and doubt last until the next good answer.
//! - A lease that runs out by itself is held only while its time is good, whatever was answered.
//! - Nothing here keeps the lock: that is the guard's alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::decide::Millis;
use tenure_core::{Error, Lease, LeaseId, Place, Resource, Result, RetryPolicy, Store, duration};
use tenure_files::clock;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::trust::{Phase, Trust};
use super::{Doubt, GuardState};
use crate::poison::lock;
use crate::retry::retry;

/// What a guard, its watch and the blocking front have in common.
pub(crate) struct Hold {
    pub(super) store: Arc<dyn Store>,
    pub(crate) id: LeaseId,
    pub(crate) resource: Resource,
    pub(super) lease: Mutex<Lease>,
    pub(super) retry: RetryPolicy,
    /// None where the lease lasts for as long as its session.
    trust: Option<Trust>,
    standing: watch::Sender<Standing>,
    /// What the watch is about with it.
    pub(crate) checks: Mutex<Checks>,
}

/// The checks of one lock, in milliseconds since boot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checks {
    /// When the last one was begun.
    pub(crate) begun: Option<Millis>,
    /// Whether it has not ended yet.
    pub(crate) under_way: bool,
    /// Whether the one that decides after a sleep has not ended yet.
    pub(crate) last_try: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Held,
    Unknown(String),
    Doubt(String),
    Lost(String),
}

impl Hold {
    /// A lock that was granted by a question asked then.
    pub(super) fn new(
        store: Arc<dyn Store>,
        lease: Lease,
        retry: RetryPolicy,
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
            standing: watch::Sender::new(Standing::Held),
            checks: Mutex::default(),
        }
    }

    pub(crate) fn lease(&self) -> Lease {
        lock(&self.lease).clone()
    }

    pub(crate) fn state(&self) -> GuardState {
        let good = self.phase(clock::boot_now()) == Phase::Good;
        match *self.standing.borrow() {
            Standing::Held if good => GuardState::Held,
            Standing::Held | Standing::Unknown(_) | Standing::Doubt(_) => GuardState::Unknown,
            Standing::Lost(_) => GuardState::Lost,
        }
    }

    /// How long it is known to last; None where that is for as long as its session.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        let trust = self.trust.as_ref()?;
        Some(trust.left(clock::boot_now()))
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
        let answer = retry(&self.retry, ask).await;
        let asked = *lock(&asked);
        self.note(asked, &answer);
        // A lease that is over is a lock that is lost, to whoever holds it.
        self.check()?;
        answer.map(drop)
    }

    /// Asks anew for a lease whose time was used up by the wait for its grant: the store may
    /// have granted it at any moment of that. A good answer is a proof, however late it comes; without one
    /// in the time of a lease there is none to come.
    pub(crate) async fn prove(&self) -> Result<()> {
        let trust = self.trust.as_ref();
        let Some(old) = trust.filter(|trust| trust.is_old(clock::boot_now())) else {
            return Ok(());
        };
        let ask = async {
            loop {
                match self.renew().await {
                    Err(error) if error.is_passing() => sleep(self.retry.first).await,
                    answer => return answer,
                }
            }
        };
        timeout(old.ttl(), ask)
            .await
            .unwrap_or_else(|_| Err(self.silence()))
    }

    pub(crate) async fn lost(&self) -> Error {
        self.stands(|_| self.check().err()).await
    }

    pub(crate) async fn in_doubt(&self) -> Doubt {
        let doubt = |standing: &Standing| match standing {
            Standing::Held | Standing::Unknown(_) => None,
            Standing::Doubt(problem) | Standing::Lost(problem) => Some(self.doubt(problem)),
        };
        self.stands(doubt).await
    }

    async fn stands<T>(&self, look: impl Fn(&Standing) -> Option<T>) -> T {
        let mut standing = self.standing.subscribe();
        loop {
            let seen = standing.borrow_and_update().clone();
            if let Some(found) = look(&seen) {
                return found;
            }
            if standing.changed().await.is_err() {
                // The sender lives in this very value, so it cannot be gone.
                std::future::pending::<()>().await;
            }
        }
    }

    fn doubt(&self, problem: &str) -> Doubt {
        let now = clock::boot_now();
        let trust = self.trust.as_ref();
        Doubt {
            place: self.place(),
            unanswered: trust.map_or(Duration::ZERO, |trust| trust.unanswered(now)),
            lost_in: trust.map_or(Duration::ZERO, |trust| trust.until_over(now)),
            problem: problem.to_owned(),
        }
    }

    /// The error of a lock that is lost.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.standing.borrow() {
            Standing::Lost(reason) => Err(Error::Lost {
                place: self.place(),
                reason: reason.clone(),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn place(&self) -> Box<Place> {
        Box::new(Place {
            resource: self.resource.clone(),
            mode: lock(&self.lease).mode,
            store: self.store.url().to_owned(),
            location: self.store.place_of(&self.resource),
        })
    }

    /// The error where the store has not said anything.
    pub(crate) fn silence(&self) -> Error {
        Error::Unreachable {
            store: self.store.url().to_owned(),
            problem: "no answer in time".into(),
        }
    }

    /// Notes what a check of the lock, asked then, came to.
    pub(crate) fn note(&self, asked: Millis, answer: &Result<Option<Duration>>) {
        match answer {
            Ok(lasts) => self.note_good(asked, *lasts),
            Err(error) => {
                self.stand(Standing::Unknown(error.to_string()));
                self.note_loss(error);
            }
        }
    }

    fn note_good(&self, asked: Millis, lasts: Option<Duration>) {
        // What is lost gets no time any more, or it would be asked about for ever.
        if matches!(*self.standing.borrow(), Standing::Lost(_)) {
            return;
        }
        let now = clock::now();
        let mut lease = lock(&self.lease);
        lease.heartbeat_at = now;
        if let (Some(trust), Some(lasts)) = (&self.trust, lasts) {
            trust.renewed(asked, lasts);
            // For people, by the clock on this machine's wall.
            lease.expires_at = Some(now.after(trust.left(clock::boot_now())));
        }
        drop(lease);
        // A good answer that came too late is too late.
        if self.phase(clock::boot_now()) == Phase::Good {
            self.stand(Standing::Held);
        }
    }

    /// Notes the end of the lock if that is what the error means.
    pub(crate) fn note_loss(&self, error: &Error) {
        if let Error::Lost { reason, .. } | Error::LeaseOver { reason, .. } = error {
            self.stand(Standing::Lost(reason.clone()));
        }
    }

    /// Notes that there is no answer yet where one should have come.
    pub(crate) fn note_silence(&self) {
        if *self.standing.borrow() == Standing::Held {
            self.stand(Standing::Unknown(self.silence().to_string()));
        }
    }

    /// Notes that two thirds of its time are used up.
    pub(crate) fn note_doubt(&self) {
        let problem = self.problem();
        self.stand(Standing::Doubt(problem));
    }

    /// Gives it up, as its time is used up.
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
        self.stand(Standing::Lost(reason));
    }

    /// What went wrong last.
    fn problem(&self) -> String {
        match &*self.standing.borrow() {
            Standing::Held => self.silence().to_string(),
            Standing::Unknown(problem) | Standing::Doubt(problem) | Standing::Lost(problem) => {
                problem.clone()
            }
        }
    }

    fn stand(&self, now: Standing) {
        self.standing.send_if_modified(|standing| {
            let now = match (&*standing, now) {
                // Lost is final: whoever was told has stopped relying on it.
                (Standing::Lost(_), _) => return false,
                // One more failure does not take the doubt away.
                (Standing::Doubt(_), Standing::Unknown(problem)) => Standing::Doubt(problem),
                (_, now) => now,
            };
            let changes = *standing != now;
            *standing = now;
            changes
        });
    }
}
