//! The changes of a decision, as rows: one statement or two for each, within a step.

use rusqlite::params;
use tenure_core::audit::Action;
use tenure_core::decide::{Bound, Change, End, Holder, HolderState, Waiter};
use tenure_core::internal::loaded::{grants, mode_action, not_there};
use tenure_core::request::Awaited;
use tenure_core::{Error, Lease, LeaseId, Mode, Owner, Request, Resource, Result, Token};

use super::load::{Loaded, load_token};
use super::row::{LeaseRow, column, durability_of, millis};
use super::step::{Step, signed};
use super::{audit, claims};
use crate::connection::Durability;

impl Step<'_> {
    /// Writes changes. Returns the lease that was granted to the new request, if one was.
    pub(super) fn write(
        &mut self,
        resource: &Resource,
        loaded: &Loaded,
        changes: &[Change],
        awaited: Option<&Awaited>,
    ) -> Result<Option<Lease>> {
        let mut granted = None;
        for change in changes {
            match change {
                Change::Grant(holder) => match awaited {
                    Some(Awaited::Lease(request)) if request.lease == holder.lease => {
                        let current = load_token(self.sql, resource)?;
                        granted = Some(self.grant(request, current)?);
                    }
                    _ => self.offer(resource, loaded, holder)?,
                },
                Change::SetMode {
                    lease,
                    mode,
                    upgraded,
                } => self.set_mode(resource, loaded, lease, *mode, *upgraded)?,
                Change::SetState { lease, state } => {
                    self.set_state(loaded, lease, state)?;
                }
                Change::SetBinding { lease, binding } => self.set_binding(lease, binding)?,
                Change::Remove { lease, end } => self.remove(loaded, lease, *end)?,
                Change::Enqueue(waiter) => self.enqueue(resource, waiter, awaited)?,
                // A waiter that is granted is still needed: its row becomes the lease.
                Change::Dequeue(lease) if !grants(changes, lease) => self.dequeue(loaded, lease)?,
                Change::Dequeue(_) => {}
            }
        }
        Ok(granted)
    }

    /// Grants the new request at once.
    pub(super) fn grant(&mut self, request: &Request, current: Option<Token>) -> Result<Lease> {
        const INSERT: &str = "INSERT INTO dal_locks (lock_id, owner, heartbeat_ts, metadata, \
            resource, mode, session, token, acquired_at, binding, state, boot_id, pid, host, \
            command, purpose, agent) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?3, 'session', 'held', \
            ?9, ?10, ?11, ?12, ?13, ?14)";
        let asker = &request.asker;
        self.record(asker)?;
        let token = self.token_after(current, &request.resource, request.mode)?;
        let lease = request.granted(token, self.moment.wall);
        let now = self.moment.wall.to_string();
        let metadata = request.metadata.as_ref().map(ToString::to_string);
        let row = params![
            lease.lease.as_str(),
            asker.owner.as_str(),
            now,
            metadata,
            lease.resource.as_str(),
            lease.mode.as_str(),
            asker.session.as_str(),
            signed(token),
            self.moment.boot_id,
            asker.pid,
            asker.host,
            asker.command,
            request.purpose,
            asker.agent.as_ref().map(Owner::as_str),
        ];
        self.sql.execute(INSERT, row)?;
        self.audit(Action::Acquire, &lease, None, false)?;
        self.granted(&lease);
        Ok(lease)
    }

    /// Grants to the next in line: the row of the waiter becomes that of an offer.
    fn offer(&mut self, resource: &Resource, loaded: &Loaded, holder: &Holder) -> Result<()> {
        const INSERT: &str = "INSERT INTO dal_locks (lock_id, owner, heartbeat_ts, metadata, \
            resource, mode, session, token, acquired_at, binding, state, until_boot, boot_id, \
            pid, host, command, purpose, agent) \
            SELECT lock_id, owner, ?2, metadata, resource, mode, session, ?3, ?2, 'session', \
            'offered', ?4, ?5, pid, host, command, purpose, agent FROM waiters WHERE place = ?1";
        let waiter = loaded.waiter(&holder.lease);
        let waiter = waiter.ok_or_else(|| Error::Internal("a grant to nobody".into()))?;
        let until = match holder.state {
            HolderState::Offered { until } => column(until),
            HolderState::Held | HolderState::Revoking { .. } => None,
        };
        let token = self.token_for(resource, holder.mode)?;
        let row = params![
            waiter.place,
            self.moment.wall.to_string(),
            signed(token),
            until,
            self.moment.boot_id,
        ];
        self.sql.execute(INSERT, row)?;
        self.dequeue(loaded, &holder.lease)?;
        let entry = audit::NewEntry::of_offer(waiter, resource, token);
        audit::append(self.sql, &entry, false, &self.moment)?;
        self.after.wake.push(waiter.session.clone());
        Ok(())
    }

    fn set_mode(
        &mut self,
        resource: &Resource,
        loaded: &Loaded,
        lease: &LeaseId,
        mode: Mode,
        upgraded: bool,
    ) -> Result<()> {
        const UPDATE: &str = "UPDATE dal_locks SET mode = ?2, upgraded = ?3, token = ?4, upgraded_by = ?5 \
             WHERE lock_id = ?1";
        let held = self.lease_of(loaded, lease)?;
        let mut lease = held.lease.clone();
        if mode.is_exclusive() {
            lease.token = self.token_for(resource, mode)?;
        }
        lease.mode = mode;
        self.sql.require(durability_of(held));
        let waiter = loaded.waiter(&lease.lease);
        let row = params![
            lease.lease.as_str(),
            mode.as_str(),
            upgraded,
            signed(lease.token),
            waiter.map(|waiter| waiter.session.as_str()),
        ];
        self.sql.execute(UPDATE, row)?;
        // An upgrade that waited is woken; this step deletes its place in line.
        if let Some(waiter) = waiter {
            self.after.wake.push(waiter.session.clone());
        }
        // An upgrade that waited was asked for by its waiter, not by the actor that ends its wait.
        let asked = waiter.map(|waiter| waiter.actor().clone());
        let asked = asked.or_else(|| self.actor.clone());
        let step = std::mem::replace(&mut self.actor, asked);
        let audited = self.audit(mode_action(mode), &lease, None, false);
        self.actor = step;
        audited
    }

    fn set_state(&mut self, loaded: &Loaded, lease: &LeaseId, state: &HolderState) -> Result<()> {
        // All times of a row are of one boot, so its other times are converted to this boot.
        const UPDATE: &str = "UPDATE dal_locks SET state = ?2, until_boot = ?3, boot_id = ?4, \
            expires_boot = ?5, heartbeat_boot = ?6, heartbeat_ts = coalesce(?7, heartbeat_ts) \
            WHERE lock_id = ?1";
        let held = self.lease_of(loaded, lease)?;
        // Accepting counts as a heartbeat of the holder; being broken does not.
        let (state, until, seen) = match state {
            HolderState::Held => ("held", None, Some(self.moment.wall.to_string())),
            HolderState::Offered { until } => ("offered", column(*until), None),
            HolderState::Revoking { until } => ("revoking", column(*until), None),
        };
        let (expires, heartbeat) = match &held.holder.binding {
            Bound::Session => (None, None),
            Bound::Lease { expires, stale, .. } => {
                let grace = millis(held.grace());
                (column(*expires), column(stale.saturating_sub(grace)))
            }
        };
        let row = params![
            lease.as_str(),
            state,
            until,
            self.moment.boot_id,
            expires,
            heartbeat,
            seen,
        ];
        self.sql.execute(UPDATE, row).map(drop)
    }

    fn set_binding(&mut self, lease: &LeaseId, binding: &Bound) -> Result<()> {
        const UPDATE: &str = "UPDATE dal_locks SET binding = 'lease', lease_expires = ?2, \
            expires_boot = ?3, heartbeat_ts = ?4, heartbeat_boot = ?5, ttl_ms = ?6, boot_id = ?7, \
            grace_ms = ?8, state = 'held', until_boot = NULL WHERE lock_id = ?1";
        let Bound::Lease { expires, stale, .. } = binding else {
            return Err(Error::Internal(
                "a lease does not go back to its session".into(),
            ));
        };
        let ttl = expires.saturating_sub(self.moment.boot);
        let expires_at = self
            .moment
            .wall
            .after(std::time::Duration::from_millis(ttl));
        self.sql.require(Durability::PowerLoss);
        let row = params![
            lease.as_str(),
            expires_at.to_string(),
            column(*expires),
            self.moment.wall.to_string(),
            column(self.moment.boot),
            column(ttl),
            self.moment.boot_id,
            column(stale.saturating_sub(self.moment.boot)),
        ];
        self.sql.execute(UPDATE, row).map(drop)
    }

    fn remove(&mut self, loaded: &Loaded, lease: &LeaseId, end: End) -> Result<()> {
        let held = self.lease_of(loaded, lease)?.clone();
        self.remove_lease(&held, end)
    }

    /// Ends a lease, and writes how into the audit.
    pub(super) fn remove_lease(&mut self, held: &LeaseRow, end: End) -> Result<()> {
        const DELETE: &str = "DELETE FROM dal_locks WHERE lock_id = ?1";
        let id = &held.lease.lease;
        let bound = held.ttl.is_some();
        self.sql.require(durability_of(held));
        self.sql.execute(DELETE, params![id.as_str()])?;
        if bound {
            claims::forget(self.sql, id)?;
        }
        let (action, reason) = held.audit_of_end(end, self.moment.wall, "is proved dead");
        // The holder of a lease-bound or broken lease may ask later how it ended.
        let ends = bound || end == End::Broken;
        self.audit(action, &held.lease, reason.as_deref(), ends)
    }

    fn enqueue(
        &mut self,
        resource: &Resource,
        waiter: &Waiter,
        awaited: Option<&Awaited>,
    ) -> Result<()> {
        const INSERT: &str = "INSERT INTO waiters (lock_id, resource, want, mode, capacity, \
            session, holder_session, owner, since, deadline, deadline_boot, boot_id, pid, host, \
            command, purpose, metadata, ancestors, lasting, agent) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
            ?18, ?19, ?20)";
        let awaited = awaited.ok_or_else(|| Error::Internal("nobody to queue".into()))?;
        let (asker, standing, request) = (awaited.asker(), awaited.standing(), awaited.request());
        let metadata = request.and_then(|request| request.metadata.as_ref());
        self.record(asker)?;
        let row = params![
            waiter.lease.as_str(),
            resource.as_str(),
            awaited.want(),
            waiter.want.mode().as_str(),
            request.and_then(|request| request.capacity),
            asker.session.as_str(),
            // An upgrade waits on behalf of the session that holds the lease.
            waiter.session.as_str(),
            asker.owner.as_str(),
            self.moment.wall.to_string(),
            awaited.deadline().map(|at| at.to_string()),
            column(waiter.deadline),
            self.moment.boot_id,
            asker.pid,
            asker.host,
            asker.command,
            request.and_then(|request| request.purpose.as_deref()),
            metadata.map(ToString::to_string),
            standing.ancestors_text(),
            standing.lasting.word(),
            asker.agent.as_ref().map(Owner::as_str),
        ];
        self.sql.execute(INSERT, row).map(drop)
    }

    fn dequeue(&mut self, loaded: &Loaded, lease: &LeaseId) -> Result<()> {
        const DELETE: &str = "DELETE FROM waiters WHERE place = ?1";
        match loaded.waiter(lease) {
            Some(waiter) => self.sql.execute(DELETE, params![waiter.place]).map(drop),
            // Queued and timed out by this same decision: the row was never written.
            None => Ok(()),
        }
    }

    fn lease_of<'l>(&self, loaded: &'l Loaded, lease: &LeaseId) -> Result<&'l LeaseRow> {
        loaded.lease(lease).ok_or_else(|| not_there(lease))
    }
}
