//! What becomes of what the dead and the dropped held, in stores where every lease has a time of
//! its own.
//!
//! Where a session's death is proved, what it held is free at once. Where it is not, because the
//! store is on another machine, everything is lease-bound: what the dead held is free when its time
//! is over, who waited is passed over when its process was not seen for a while, and what was
//! offered to it passes on when an offer does. And what is dropped is given back by a round trip,
//! so others see it a moment later. Nothing else differs: what a living process leaves behind is as
//! wrong there as anywhere.

use std::path::Path;
use std::time::Duration;

use tenure::{Binding, Lease, LeaseState, Mode, Query};
use tenure_core::leases::Recovery;

use super::{Stage, until};
use crate::agent::Agent;

impl Stage<'_> {
    /// Whether guards are lease-bound: the store is at a server, and cannot prove that a session is
    /// dead.
    pub fn is_lease_bound(&self) -> bool {
        self.capabilities().ttl.is_some()
    }

    /// What ends the lease of a guard when nobody releases it.
    pub fn binding(&self) -> Binding {
        match self.is_lease_bound() {
            true => Binding::Lease,
            false => Binding::Session,
        }
    }

    /// How long it takes at most until a death has its effect: `at_once` where it is proved, and
    /// `later`, the time of what ends instead, more where it is not.
    pub fn after_death(&self, at_once: Duration, later: Duration) -> Duration {
        match self.is_lease_bound() {
            true => at_once + later,
            false => at_once,
        }
    }

    /// A wait that is long enough for all that is to be done within it: `here` on this machine,
    /// `remote` where every step is a round trip or two to a server that others keep busy.
    pub fn wait_of(&self, here: Duration, remote: Duration) -> Duration {
        match self.is_lease_bound() {
            true => remote,
            false => here,
        }
    }

    /// Takes what a dead agent held: at once where its death is proved, else when its time is over.
    pub fn take_from_the_dead(&self, agent: &mut Agent, name: &str, mode: Mode) -> Lease {
        match self.is_lease_bound() {
            false => agent.take(name, mode),
            true => {
                let wanted = agent.want(name, mode);
                agent.granted(wanted)
            }
        }
    }

    /// Returns when what this process dropped is given back: a process sees what itself has ended.
    pub fn settle(&self) {
        if self.is_lease_bound() {
            self.held();
        }
    }

    /// Has the time run out of what killed agents held and awaited, where it has a time.
    pub fn outlive_the_dead(&self) {
        let gone = |pid: &u32| !is_alive(*pid);
        let dead: Vec<u32> = {
            let pids = self.pids.lock().unwrap();
            pids.iter().copied().filter(gone).collect()
        };
        if !self.is_lease_bound() || dead.is_empty() {
            return;
        }
        let ttl = self.capabilities().ttl.unwrap_or_default();
        // What was under way at the server when they died may come after.
        until("nothing is left of the dead", || {
            self.fixture.outlive(&self.fresh, &dead);
            self.recover(Recovery::Real);
            let of_a_guard = |lease: &Lease| {
                let lasts = lease.expires_at.map(|at| at.since(lease.heartbeat_at));
                lasts.is_none_or(|lasts| lasts <= ttl)
            };
            let held = self.held();
            let left = |lease: &Lease| dead.contains(&lease.pid) && of_a_guard(lease);
            !held.iter().any(left)
        });
        self.pids.lock().unwrap().retain(|pid| is_alive(*pid));
    }

    /// Returns when nothing is held and nobody waits. What the living let go is gone long before
    /// its time is over; what is not was left behind.
    pub(super) fn until_idle(&self) {
        if !self.is_lease_bound() {
            return;
        }
        until("nothing is held, and nobody waits", || {
            let listing = self.block_on(self.keeper().list(&Query::default()));
            let listing = listing.unwrap();
            let over = |lease: &&Lease| lease.state == LeaseState::Expired;
            let left_behind = listing.held.iter().find(over);
            assert!(left_behind.is_none(), "left behind: {left_behind:?}");
            listing.held.is_empty() && listing.waiting.unwrap_or_default().is_empty()
        });
    }
}

/// Whether a process is there. Agents that were killed have been waited for.
fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
