//! The end of leases that dead and dropped holders leave, in stores where every lease has a time of
//! its own.
//!
//! Where a session's death is proved, its leases are free at once. A store on another machine
//! cannot prove it, so all leases there are lease-bound: the lease of a dead holder is free when
//! its time is over, a dead waiter is passed over when its process was not seen for a while, and an
//! offer to it passes on when the time of offers is over. A dropped lease is given back by a round
//! trip, so others see it a moment later. Nothing else differs: a lease that a living process
//! leaves behind is as wrong there as anywhere.

use std::path::Path;
use std::time::Duration;

use tenure::{Binding, Lease, LeaseState, Mode, Query};
use tenure_core::leases::Recovery;

use super::{Stage, until};
use crate::agent::Agent;

impl Stage<'_> {
    /// Returns true if guards are lease-bound: the store is at a server, and cannot prove that a
    /// session is dead.
    pub fn is_lease_bound(&self) -> bool {
        self.capabilities().ttl.is_some()
    }

    /// Returns the binding that ends the lease of a guard which is not released.
    pub fn binding(&self) -> Binding {
        if self.is_lease_bound() {
            Binding::Lease
        } else {
            Binding::Session
        }
    }

    /// Returns the longest time until a death has its effect: `at_once` where it is proved, else
    /// longer by `later`, the time of the lease or offer that has to end instead.
    pub fn after_death(&self, at_once: Duration, later: Duration) -> Duration {
        if self.is_lease_bound() {
            at_once + later
        } else {
            at_once
        }
    }

    /// Returns a wait that is long enough for all that must be done within it: `here` on this
    /// machine, `remote` where every step is a round trip or two to a busy server.
    pub fn wait_of(&self, here: Duration, remote: Duration) -> Duration {
        if self.is_lease_bound() { remote } else { here }
    }

    /// Takes the lock of a dead agent: at once where its death is proved, else when its time is
    /// over.
    pub fn take_from_the_dead(&self, agent: &mut Agent, name: &str, mode: Mode) -> Lease {
        if !self.is_lease_bound() {
            return agent.take(name, mode);
        }
        let wanted = agent.want(name, mode);
        agent.granted(wanted)
    }

    /// Returns when the leases that this process dropped are given back: a list by this process
    /// shows them as ended.
    pub fn settle(&self) {
        if self.is_lease_bound() {
            self.held();
        }
    }

    /// Ends the time of the leases and waits that killed agents left, where they have a time.
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
        // Work of theirs that was under way at the server may be done only after their death.
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

    /// Returns when nothing is held and no request waits. A lease that a living process gave up is
    /// gone long before its time is over; an expired one was left behind.
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

/// Returns true if a process is there. Agents that were killed have been waited for.
fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
