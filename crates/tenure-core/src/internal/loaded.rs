//! The rows that a store has loaded for one decision, and the meaning of a decision for them: the
//! half of a store that needs no database.
//!
//! A decision goes through the line from its front, and ends at the first waiter that does not fit.
//! A store loads only the front of the line and the waiter that the decision is about. If the
//! decision removes the whole front, the store loads more and decides again.

use std::time::Duration;

use crate::audit::{Action, OFFER_LAPSED, not_confirmed, recovered};
use crate::circles::Standing;
use crate::decide::{
    Bound, Change, Decision, End, Holder, HolderState, Life, Millis, Refusal, State, Waiter,
};
use crate::leases::{Finding, Stale, grace};
use crate::{Error, Lease, LeaseId, LeaseState, Mode, Owner, SessionId, Timestamp};

/// The part of a line to load.
#[derive(Debug, Clone, Copy)]
pub enum LineExtent<'a> {
    /// The whole line.
    All,
    /// The front of the line.
    Front,
    /// The front of the line, and the waiter for this lease.
    FrontAnd(&'a LeaseId),
    /// The first waiter, the one before this place, and the waiter at this place.
    Around(&'a LeaseId, i64),
}

/// One lease as loaded. `P` is what the store knows of the process behind it.
#[derive(Debug, Clone)]
pub struct LeaseRow<P> {
    /// The lease as people and programs see it.
    pub lease: Lease,
    /// The lease as the input of a decision. Its life is as it was known when the row was read.
    pub holder: Holder,
    /// The time to live it was last given, or will have once it is taken up. `None` while it is
    /// bound to its session.
    pub ttl: Option<Duration>,
    /// The grace period it was last given. `None` while it is bound to its session, and where the
    /// default counts.
    pub stale_grace: Option<Duration>,
    /// The person that broke it, and the reason.
    pub note: Option<String>,
    /// The session that waited for it to become write.
    pub upgraded_by: Option<SessionId>,
    /// The process behind it.
    pub process: P,
}

/// One waiter as loaded. `P` is what the store knows of the process behind it.
#[derive(Debug, Clone)]
pub struct WaiterRow<P> {
    /// Its place in line: a waiter that came earlier has a lower number.
    pub place: i64,
    /// The waiter as the input of a decision.
    pub waiter: Waiter,
    /// The session that waits; its death ends the wait. For an upgrade it may be another than the
    /// session that holds the lease.
    pub session: SessionId,
    /// The owner of the request.
    pub owner: Owner,
    /// The coding agent that asks, if one was detected.
    pub agent: Option<Owner>,
    /// The time when it began to wait.
    pub since: Timestamp,
    /// The time when it gives up, for people.
    pub deadline: Option<Timestamp>,
    /// Its relation to the other work of its owner, for the search of circles.
    pub standing: Standing,
    /// The process that waits.
    pub process: P,
}

/// The holders and the line of a resource, as loaded.
#[derive(Debug, Clone)]
pub struct Loaded<L, W> {
    /// The leases of the holders.
    pub leases: Vec<LeaseRow<L>>,
    /// The waiters in the order they are served: an upgrade is before all others.
    pub waiters: Vec<WaiterRow<W>>,
    /// The last place of the loaded front, if there may be more waiters behind it.
    pub front_ends: Option<i64>,
}

impl<L, W> Default for Loaded<L, W> {
    fn default() -> Self {
        Self {
            leases: Vec::new(),
            waiters: Vec::new(),
            front_ends: None,
        }
    }
}

impl<L: Clone, W> Loaded<L, W> {
    /// Returns one lease alone, for decisions that depend on no other row.
    pub fn alone(row: &LeaseRow<L>) -> Self {
        Self {
            leases: vec![row.clone()],
            ..Self::default()
        }
    }
}

impl<L, W> Loaded<L, W> {
    /// Returns the input of a decision.
    pub fn state(&self) -> State {
        State {
            holders: self.leases.iter().map(|row| row.holder.clone()).collect(),
            waiters: self.waiters.iter().map(|row| row.waiter.clone()).collect(),
        }
    }

    /// Returns the row of a lease.
    pub fn lease(&self, id: &LeaseId) -> Option<&LeaseRow<L>> {
        self.leases.iter().find(|row| row.lease.lease == *id)
    }

    /// Returns the row of a lease, to be changed.
    pub fn lease_mut(&mut self, id: &LeaseId) -> Option<&mut LeaseRow<L>> {
        self.leases.iter_mut().find(|row| row.lease.lease == *id)
    }

    /// Returns the row of a waiter.
    pub fn waiter(&self, id: &LeaseId) -> Option<&WaiterRow<W>> {
        self.waiters.iter().find(|row| row.waiter.lease == *id)
    }

    /// Returns the ids of all holders and waiters.
    pub fn ids(&self) -> impl Iterator<Item = &LeaseId> {
        let held = self.leases.iter().map(|row| &row.lease.lease);
        held.chain(self.waiters.iter().map(|row| &row.waiter.lease))
    }

    /// Returns true if a decision removes the whole loaded front of the line, and there may be more
    /// waiters behind it.
    pub fn is_exhausted_by(&self, decision: &Decision) -> bool {
        let leaves = |id: &LeaseId| {
            let is = |change: &Change| matches!(change, Change::Dequeue(lease) if lease == id);
            decision.changes.iter().any(is)
        };
        self.front_ends.is_some_and(|last| {
            let mut front = self.waiters.iter().filter(|row| row.place <= last);
            front.all(|row| leaves(&row.waiter.lease))
        })
    }
}

impl<P> WaiterRow<P> {
    /// Returns the asker for the audit: the coding agent, else the owner.
    pub fn actor(&self) -> &Owner {
        self.agent.as_ref().unwrap_or(&self.owner)
    }
}

impl<P> LeaseRow<P> {
    /// Returns true if it is over and only waits to be removed: the time of an offer or of a break
    /// has run out, or its session is dead and nothing else keeps it.
    pub fn has_run_out(&self, now: Millis) -> bool {
        let dead = self.holder.binding == Bound::Session && self.holder.life == Life::Dead;
        match self.holder.state {
            HolderState::Offered { until } | HolderState::Revoking { until } => {
                dead || until <= now
            }
            HolderState::Held => dead,
        }
    }

    /// Returns the error for a renewal that was refused.
    pub fn not_renewed(&self, refusal: Refusal) -> Error {
        let over = |reason: &str| Error::over(&self.lease.lease, reason);
        let offered = matches!(self.holder.state, HolderState::Offered { .. });
        match refusal {
            Refusal::Revoked => over(self.note.as_deref().unwrap_or("broken")),
            Refusal::NotLeaseBound if offered => over("it is on offer, and was not taken up"),
            Refusal::NotLeaseBound => Error::not_allowed(
                format!(
                    "lease {} is bound to session {}",
                    self.lease.lease, self.lease.session
                ),
                "it lasts for as long as its session; there is nothing to renew",
            ),
            _ => over("it is not held"),
        }
    }

    /// Returns true if the lease ends when its session is proved dead.
    pub fn ends_with_session(&self) -> bool {
        let offered = matches!(self.holder.state, HolderState::Offered { .. });
        offered || self.holder.binding == Bound::Session
    }

    /// Returns the time to live, zero while the lease is bound to its session.
    pub fn ttl(&self) -> Duration {
        self.ttl.unwrap_or_default()
    }

    /// Returns the age that the heartbeat of a lease may reach before it counts as stale.
    pub fn grace(&self) -> Duration {
        grace(self.ttl(), self.stale_grace)
    }

    /// Returns the grace period, or `None` if it is not longer than the time of the lease, so that
    /// the heartbeat has nothing to decide.
    fn deciding_grace(&self) -> Option<Duration> {
        Some(self.grace()).filter(|grace| *grace > self.ttl())
    }

    /// Returns the finding about a lease whose time is over, or `None` if it is not.
    pub fn stale(&self, claimed_by: Option<String>, now: Millis) -> Option<Finding> {
        let Bound::Lease { expires, stale, .. } = self.holder.binding else {
            return None;
        };
        let since = |at: Millis| Duration::from_millis(now.saturating_sub(at));
        let heartbeat = stale.saturating_sub(millis(self.grace()));
        (expires <= now).then(|| {
            let stale = Stale {
                expired: since(expires),
                heartbeat: since(heartbeat),
                grace: self.deciding_grace(),
                claimed_by,
            };
            Finding::stale(&self.lease, stale)
        })
    }

    /// Returns the action and the reason in the audit for the end of the lease. `death` says how
    /// the death of its session is known.
    pub fn audit_of_end(&self, end: End, now: Timestamp, death: &str) -> (Action, Option<String>) {
        match end {
            End::Released => (Action::Release, None),
            End::SessionEnded => (
                Action::SessionEnded,
                Some(format!("session {} {death}", self.lease.session)),
            ),
            End::Recovered => (
                Action::Recover,
                Some(recovered(&self.lease, now, self.deciding_grace())),
            ),
            End::OfferLapsed => (Action::Expire, Some(OFFER_LAPSED.to_owned())),
            End::Broken => (Action::Lost, Some(not_confirmed(self.note.as_deref()))),
        }
    }
}

/// Returns the state that people see of a lease.
pub fn shown_state(state: HolderState, binding: &Bound, now: Millis) -> LeaseState {
    match (state, binding) {
        (HolderState::Offered { .. }, _) => LeaseState::Offered,
        (HolderState::Revoking { .. }, _) => LeaseState::Revoking,
        (HolderState::Held, Bound::Lease { expires, .. }) if *expires <= now => LeaseState::Expired,
        (HolderState::Held, _) => LeaseState::Held,
    }
}

/// Returns the action in the audit for a change to this mode.
pub fn mode_action(mode: Mode) -> Action {
    match mode {
        Mode::Write => Action::Upgrade,
        Mode::Read | Mode::Upgradeable => Action::Downgrade,
    }
}

/// Returns true if the changes grant this lease.
pub fn grants(changes: &[Change], lease: &LeaseId) -> bool {
    let is = |change: &Change| matches!(change, Change::Grant(holder) if holder.lease == *lease);
    changes.iter().any(is)
}

/// Returns true if the changes end this lease.
pub fn removes(changes: &[Change], id: &LeaseId) -> bool {
    let is = |change: &Change| matches!(change, Change::Remove { lease, .. } if lease == id);
    changes.iter().any(is)
}

/// Returns the error for a change to a lease that is not there.
pub fn not_there(lease: &LeaseId) -> Error {
    Error::Internal(format!("a change to lease {lease}, which is not there"))
}

/// Returns a duration in milliseconds, as decisions count time.
pub fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
