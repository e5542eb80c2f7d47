//! The changes of a decision, as statements of a step: one or two for each change, sent with the
//! commit.
//!
//! Each statement finds its row by a key that the step has read under the lock of the resource, so
//! none misses its row, and no answer is needed. A changed lease also changes in the rows that the
//! step has loaded.
//!
//! A holder that `decide` treats as bound to its session is an offer here, which ends with its
//! process. Every other grant has an expiry from its first moment: it begins with the time to live
//! of the store.

use std::time::Duration;

use tenure_core::audit::Action;
use tenure_core::decide::{Bound, Change, End, Holder, HolderState, Life, Millis, Waiter};
use tenure_core::internal::loaded::{grants, mode_action, not_there};
use tenure_core::leases::grace;
use tenure_core::request::Awaited;
use tenure_core::{Binding, Error, Lease, LeaseId, LeaseState, Mode, Request, Result, Token};

use super::audit;
use super::moment::{Moment, shown, written};
use super::row::{LeaseRow, millis, signed};
use super::sql::{Statement, values};
use super::step::Step;

impl Step<'_> {
    /// Adds changes, to be written with the commit. Returns the lease that was granted to the new
    /// request, if one was.
    pub(super) fn write(
        &mut self,
        changes: &[Change],
        awaited: Option<&Awaited>,
    ) -> Result<Option<Lease>> {
        let mut granted = None;
        for change in changes {
            match change {
                Change::Grant(holder) => match awaited {
                    Some(Awaited::Lease(request)) if request.lease == holder.lease => {
                        granted = Some(self.grant(request)?);
                    }
                    _ => self.offer(holder)?,
                },
                Change::SetMode {
                    lease,
                    mode,
                    upgraded,
                } => self.set_mode(lease, *mode, *upgraded, awaited)?,
                // The new binding also makes it held.
                Change::SetState { lease, .. } if binds(changes, lease) => {}
                Change::SetState { lease, state } => self.set_state(lease, *state)?,
                Change::SetBinding { lease, binding } => self.set_binding(lease, *binding)?,
                Change::Remove { lease, end } => {
                    let held = self.lease_of(lease)?.clone();
                    self.remove_lease(&held, *end);
                }
                Change::Enqueue(waiter) => self.enqueue(waiter, awaited)?,
                // The row of a waiter that is granted becomes the lease.
                Change::Dequeue(lease) if grants(changes, lease) => {}
                Change::Dequeue(lease) => self.dequeue(lease),
            }
            self.state.apply(change);
        }
        Ok(granted)
    }

    /// Grants to the request itself, at once.
    fn grant(&mut self, request: &Request) -> Result<Lease> {
        const INSERT: &str = "INSERT INTO tenure.dal_locks (lock_id, owner, lease_expires, heartbeat_ts, \
            metadata, resource, mode, session, process, token, acquired_at, state, ttl_ms, pid, host, \
            command, purpose, agent) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $4, 'held', $11, $12, $13, $14, $15, $16)";
        let token = self.token_for(request.mode)?;
        let ttl = self.store.ttl;
        let expires = self.moment.now().saturating_add(millis(ttl));
        let lease = new_lease(request, token, &self.moment, expires);
        self.add(Statement::new(
            INSERT,
            values![
                lease.lease.to_string(),
                lease.owner.to_string(),
                written(expires),
                self.moment.at(),
                lease.metadata.as_ref().map(ToString::to_string),
                lease.resource.to_string(),
                lease.mode.as_str(),
                lease.session.to_string(),
                self.store.process.to_owned(),
                signed(token),
                millis(ttl).cast_signed(),
                i64::from(lease.pid),
                lease.host.clone(),
                lease.command.clone(),
                lease.purpose.clone(),
                lease.agent.as_ref().map(ToString::to_string),
            ],
        ));
        self.audit(Action::Acquire, &lease, None, false);
        Ok(lease)
    }

    /// Grants to the next in line: the row of the waiter becomes an offer, and its process is
    /// notified.
    fn offer(&mut self, holder: &Holder) -> Result<()> {
        const MOVE: &str = "WITH w AS (DELETE FROM tenure.waiters WHERE place = $1 RETURNING *) \
            INSERT INTO tenure.dal_locks (lock_id, owner, heartbeat_ts, metadata, resource, mode, session, \
            process, token, acquired_at, state, until, ttl_ms, pid, host, command, purpose, agent) \
            SELECT lock_id, owner, $2, metadata, resource, mode, session, process, $3, $2, 'offered', $4, \
            ttl_ms, pid, host, command, purpose, agent FROM w";
        let waiter = self.loaded.waiter(&holder.lease).cloned();
        let waiter = waiter.ok_or_else(|| Error::Internal("a grant to nobody".into()))?;
        let until = match holder.state {
            HolderState::Offered { until } => written(until),
            HolderState::Held | HolderState::Revoking { .. } => None,
        };
        let token = self.token_for(holder.mode)?;
        let values = values![waiter.place, self.moment.at(), signed(token), until];
        self.add(Statement::new(MOVE, values));
        let entry = audit::NewEntry::of_offer(&waiter, self.resource()?, token);
        self.add(audit::append(&entry, false, &self.moment));
        self.wake(&waiter.process, &holder.lease);
        Ok(())
    }

    fn set_mode(
        &mut self,
        id: &LeaseId,
        mode: Mode,
        upgraded: bool,
        awaited: Option<&Awaited>,
    ) -> Result<()> {
        const UPDATE: &str = "UPDATE tenure.dal_locks SET mode = $2, upgraded = $3, token = $4, \
            upgraded_by = $5 WHERE lock_id = $1";
        let mut token = self.lease_of(id)?.lease.token;
        if mode.is_exclusive() {
            token = self.token_for(mode)?;
        }
        // The session that asks now, or that waited for the upgrade.
        let asks = awaited
            .filter(|awaited| awaited.lease() == id)
            .map(|awaited| {
                let asker = awaited.asker();
                (asker.session.clone(), asker.actor().clone())
            });
        let waiter = self.loaded.waiter(id);
        let waiter = waiter.filter(|row| row.waiter.life == Life::Alive);
        let waited = || waiter.map(|row| (row.session.clone(), row.actor().clone()));
        let (by, asked) = asks.or_else(waited).filter(|_| upgraded).unzip();
        self.add(Statement::new(
            UPDATE,
            values![
                id.to_string(),
                mode.as_str(),
                upgraded,
                signed(token),
                by.as_ref().map(ToString::to_string),
            ],
        ));
        let held = self.lease_to_change(id)?;
        held.lease.mode = mode;
        held.lease.token = token;
        held.holder.mode = mode;
        held.holder.upgraded = upgraded;
        held.upgraded_by = by;
        let lease = held.lease.clone();
        // An upgrade that waited was asked for by its waiter, not by the request that ends its
        // wait.
        let asked = asked.or_else(|| self.actor.clone());
        let step = std::mem::replace(&mut self.actor, asked);
        self.audit(mode_action(mode), &lease, None, false);
        self.actor = step;
        Ok(())
    }

    /// Takes a lease up, or marks it as being broken. The time of a lease begins when it is taken
    /// up.
    fn set_state(&mut self, id: &LeaseId, state: HolderState) -> Result<()> {
        const UPDATE: &str =
            "UPDATE tenure.dal_locks SET state = $2, until = $3 WHERE lock_id = $1";
        let (word, until, shown) = match state {
            HolderState::Held => {
                let ttl = self.lease_of(id)?.ttl();
                return self.set_binding(id, self.time_of(ttl));
            }
            HolderState::Offered { until } => ("offered", until, LeaseState::Offered),
            HolderState::Revoking { until } => ("revoking", until, LeaseState::Revoking),
        };
        self.add(Statement::new(
            UPDATE,
            values![id.to_string(), word, written(until)],
        ));
        let held = self.lease_to_change(id)?;
        held.lease.state = shown;
        held.holder.state = state;
        Ok(())
    }

    fn time_of(&self, ttl: Duration) -> Bound {
        let now = self.moment.now();
        Bound::Lease {
            expires: now.saturating_add(millis(ttl)),
            stale: now.saturating_add(millis(grace(ttl, None))),
            claimed: false,
        }
    }

    fn set_binding(&mut self, id: &LeaseId, binding: Bound) -> Result<()> {
        const UPDATE: &str = "UPDATE tenure.dal_locks SET lease_expires = $2, heartbeat_ts = $3, \
            ttl_ms = $4, grace_ms = $5, state = 'held', until = NULL WHERE lock_id = $1";
        let Bound::Lease { expires, stale, .. } = binding else {
            return Err(Error::Internal("a lease does not lose its time".into()));
        };
        let now = self.moment;
        let ttl = expires.saturating_sub(now.now());
        let grace = stale.saturating_sub(now.now());
        let values = values![
            id.to_string(),
            written(expires),
            now.at(),
            ttl.cast_signed(),
            grace.cast_signed()
        ];
        self.add(Statement::new(UPDATE, values));
        let held = self.lease_to_change(id)?;
        held.ttl = Some(Duration::from_millis(ttl));
        held.stale_grace = Some(Duration::from_millis(grace));
        held.lease.expires_at = Some(shown(expires));
        held.lease.heartbeat_at = now.wall();
        held.lease.state = LeaseState::Held;
        held.holder.binding = binding;
        held.holder.state = HolderState::Held;
        Ok(())
    }

    /// Ends a lease, and records the end in the audit.
    pub(super) fn remove_lease(&mut self, held: &LeaseRow, end: End) {
        const DELETE: &str = "WITH c AS (DELETE FROM tenure.lease_claims WHERE lock_id = $1) \
            DELETE FROM tenure.dal_locks WHERE lock_id = $1";
        let id = &held.lease.lease;
        self.state.holders.retain(|holder| holder.lease != *id);
        self.add(Statement::new(DELETE, values![id.to_string()]));
        let (action, reason) =
            held.audit_of_end(end, self.moment.wall(), "has not been seen for 15s");
        self.audit(action, &held.lease, reason.as_deref(), true);
        // The process that waits to take it up, or still relies on it, is notified.
        if end != End::Released {
            self.wake(&held.process, id);
        }
    }

    fn enqueue(&mut self, waiter: &Waiter, awaited: Option<&Awaited>) -> Result<()> {
        const INSERT: &str = "INSERT INTO tenure.waiters (lock_id, resource, want, mode, capacity, session, \
            holder_session, process, owner, since, deadline, ttl_ms, pid, host, command, purpose, metadata, \
            ancestors, lasting, agent) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
        let awaited = awaited.ok_or_else(|| Error::Internal("nobody to queue".into()))?;
        let (asker, standing, request) = (awaited.asker(), awaited.standing(), awaited.request());
        let metadata = request.and_then(|request| request.metadata.as_ref());
        let capacity = request.and_then(|request| request.capacity);
        let values = values![
            waiter.lease.to_string(),
            self.resource()?.to_string(),
            awaited.want(),
            waiter.want.mode().as_str(),
            capacity.map(i64::from),
            asker.session.to_string(),
            // An upgrade waits on behalf of the session that holds the lease.
            waiter.session.to_string(),
            self.store.process.to_owned(),
            asker.owner.to_string(),
            self.moment.at(),
            written(waiter.deadline),
            millis(self.store.ttl).cast_signed(),
            i64::from(asker.pid),
            asker.host.clone(),
            asker.command.clone(),
            request.and_then(|request| request.purpose.clone()),
            metadata.map(ToString::to_string),
            standing.ancestors_text(),
            standing.lasting.word(),
            asker.agent.as_ref().map(ToString::to_string),
        ];
        self.add(Statement::new(INSERT, values));
        Ok(())
    }

    /// Takes a waiter out of the line. A waiter that has time left is notified: its lease is
    /// upgraded, or it waits in vain.
    fn dequeue(&mut self, id: &LeaseId) {
        const DELETE: &str = "DELETE FROM tenure.waiters WHERE place = $1";
        // A waiter that this decision queued and removed again was never written.
        let Some(row) = self.loaded.waiter(id).cloned() else {
            return;
        };
        self.add(Statement::new(DELETE, values![row.place]));
        if row.waiter.deadline > self.moment.now() {
            self.wake(&row.process, id);
        }
    }

    fn lease_of(&self, id: &LeaseId) -> Result<&LeaseRow> {
        self.loaded.lease(id).ok_or_else(|| not_there(id))
    }

    fn lease_to_change(&mut self, id: &LeaseId) -> Result<&mut LeaseRow> {
        self.loaded.lease_mut(id).ok_or_else(|| not_there(id))
    }
}

fn binds(changes: &[Change], id: &LeaseId) -> bool {
    let is = |change: &Change| matches!(change, Change::SetBinding { lease, .. } if lease == id);
    changes.iter().any(is)
}

/// Returns the lease of a request that is granted now, with its expiry.
pub(super) fn new_lease(
    request: &Request,
    token: Token,
    moment: &Moment,
    expires: Millis,
) -> Lease {
    let mut lease = request.granted(token, moment.wall());
    lease.expires_at = Some(shown(expires));
    lease.binding = Binding::Lease;
    lease
}
