//! What is known of a lock in hand: its lease, and how far it can be trusted.
//!
//! # Invariants
//!
//! - Lost is final. Unknown lasts until the next good check.
//! - Nothing here keeps the lock: that is the guard's alone.

use std::sync::{Arc, Mutex};

use tenure_core::{Error, Lease, LeaseId, Place, Resource, Result, RetryPolicy, Store};
use tenure_files::clock;
use tokio::sync::watch;

use super::GuardState;
use crate::poison::lock;
use crate::retry::retry;

/// What a guard, its watch and the blocking front have in common.
pub(crate) struct Hold {
    pub(super) store: Arc<dyn Store>,
    pub(crate) id: LeaseId,
    pub(crate) resource: Resource,
    pub(super) lease: Mutex<Lease>,
    pub(super) retry: RetryPolicy,
    standing: watch::Sender<Standing>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Held,
    Unknown,
    Lost(String),
}

impl Hold {
    pub(super) fn new(store: Arc<dyn Store>, lease: Lease, retry: RetryPolicy) -> Self {
        Self {
            store,
            id: lease.lease.clone(),
            resource: lease.resource.clone(),
            lease: Mutex::new(lease),
            retry,
            standing: watch::Sender::new(Standing::Held),
        }
    }

    pub(crate) fn lease(&self) -> Lease {
        lock(&self.lease).clone()
    }

    pub(crate) fn state(&self) -> GuardState {
        match *self.standing.borrow() {
            Standing::Held => GuardState::Held,
            Standing::Unknown => GuardState::Unknown,
            Standing::Lost(_) => GuardState::Lost,
        }
    }

    pub(crate) async fn renew(&self) -> Result<()> {
        self.check()?;
        let answer = retry(&self.retry, || self.store.renew(&self.id)).await;
        self.note(answer.as_ref().err());
        // A lease that is over is a lock that is lost, to whoever holds it.
        self.check()?;
        answer.map(drop)
    }

    pub(crate) async fn lost(&self) -> Error {
        let mut standing = self.standing.subscribe();
        loop {
            if let Err(lost) = self.check() {
                return lost;
            }
            if standing.changed().await.is_err() {
                // The sender lives in this very value, so it cannot be gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The error of a lock that is lost.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.standing.borrow() {
            Standing::Held | Standing::Unknown => Ok(()),
            Standing::Lost(reason) => Err(Error::Lost {
                place: self.place(),
                reason: reason.clone(),
            }),
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

    /// Notes what a check of the lock came to: None is good.
    pub(crate) fn note(&self, problem: Option<&Error>) {
        match problem {
            None => {
                lock(&self.lease).heartbeat_at = clock::now();
                self.stand(Standing::Held);
            }
            Some(error) => {
                self.stand(Standing::Unknown);
                self.note_loss(error);
            }
        }
    }

    /// Notes the end of the lock if that is what the error means.
    pub(crate) fn note_loss(&self, error: &Error) {
        if let Error::Lost { reason, .. } | Error::LeaseOver { reason, .. } = error {
            self.stand(Standing::Lost(reason.clone()));
        }
    }

    fn stand(&self, now: Standing) {
        self.standing.send_if_modified(|standing| {
            // Lost is final: whoever was told has stopped relying on it.
            let changes = !matches!(standing, Standing::Lost(_)) && *standing != now;
            if changes {
                *standing = now;
            }
            changes
        });
    }
}
