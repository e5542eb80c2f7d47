//! One step: a write transaction, the decision in it, and who is woken after it.
//!
//! # The protocol
//!
//! 1. `BEGIN IMMEDIATE`. From here on nobody else writes.
//! 2. Load the resource, [`decide`], write the changes, draw tokens from the anchor, write
//!    the audit.
//! 3. Commit. Durably where the step is about a lease of its own, a break or a recovery; a
//!    step that finds this out half-way is rolled back and made again, durably.
//! 4. Wake exactly those who were granted something.
//!
//! Every grant draws a token, that of a read lock too: by it an older copy of the database is
//! told from the newest (`anchor`). Whoever of this process is granted something claims its number
//! before 3.
//!
//! A crash before 3 changes nothing but the anchor, which only loses a number. A crash
//! between 3 and 4 leaves a waiter unwoken: it looks by itself before long (`wait`).

use rusqlite::params;
use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Bound, Change, Decision, End, Holder, Standing, Waiter, decide};
use tenure_core::leases::grace;
use tenure_core::{
    Asker, Error, Lease, LeaseId, Mode, Owner, Request, Resource, Result, SessionId, Token,
    UpgradeRequest,
};

use super::inner::Inner;
use super::load::{Dead, Line, Loaded, load, load_token};
use super::moment::Moment;
use super::row::{LeaseRow, column, millis};
use super::{audit, claims, sessions};
use crate::connection::Sql;

/// Who asks, if what it asks for may be granted or queued.
#[derive(Clone, Copy)]
pub(super) enum Newcomer<'a> {
    /// For a new lease.
    Lease(&'a Request),
    /// For an upgrade.
    Upgrade(&'a UpgradeRequest),
    /// Nobody new.
    None,
}

/// A write transaction under way.
pub(super) struct Step<'a> {
    pub(super) store: &'a Inner,
    pub(super) sql: &'a Sql<'a>,
    pub(super) moment: Moment,
    /// Who does it, for the audit; the owner of the lease itself where nobody is named.
    pub(super) actor: Option<Owner>,
    pub(super) wake: Vec<SessionId>,
    /// Grants to sessions of this process.
    granted: Vec<Grant>,
    /// The last token drawn in this step.
    drawn: Option<Token>,
    /// Sessions that were found dead: their rows go with this step.
    dead: Dead,
    durable: bool,
}

/// A lease that a session of this process is granted, and the number it claims it by.
pub(super) struct Grant {
    pub(super) session: SessionId,
    pub(super) lease: LeaseId,
    pub(super) number: Token,
}

/// What a committed step leaves to be done.
pub(super) struct After {
    pub(super) wake: Vec<SessionId>,
    pub(super) granted: Vec<Grant>,
    pub(super) buried: Dead,
    pub(super) durable: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(store: &'a Inner, sql: &'a Sql<'a>) -> Result<Self> {
        Ok(Self {
            store,
            sql,
            moment: Moment::now()?,
            actor: None,
            wake: Vec::new(),
            granted: Vec::new(),
            drawn: None,
            dead: Dead::new(),
            durable: false,
        })
    }

    pub(super) fn after(self) -> After {
        After {
            wake: self.wake,
            granted: self.granted,
            buried: self.dead,
            durable: self.durable,
        }
    }

    /// The step must be durable before it is acknowledged.
    pub(super) fn durable(&mut self) {
        self.durable = true;
    }

    /// Writes the row of the asker's session if it is new.
    pub(super) fn record(&mut self, asker: &Asker) -> Result<()> {
        self.store.sessions.record(self.sql, asker, &self.moment)
    }

    /// Claims a lease for a session of this process, which holds it once the step has
    /// committed.
    pub(super) fn granted(&mut self, lease: &Lease) -> Result<()> {
        // What was offered before has a number that is not above this one, and a database that
        // does not know of the offer knows of none as high.
        let number = match self.drawn {
            Some(drawn) => drawn,
            None => audit::last_drawn(self.sql)?,
        };
        self.store.sessions.claim(&lease.session, number)?;
        self.granted.push(Grant {
            session: lease.session.clone(),
            lease: lease.lease.clone(),
            number,
        });
        Ok(())
    }

    /// The same for a lease that was upgraded, if a session of this process keeps it.
    pub(super) fn upgraded(&mut self, lease: &Lease) -> Result<()> {
        match self.store.sessions.keeps(&lease.session, &lease.lease) {
            true => self.granted(lease),
            false => Ok(()),
        }
    }

    /// Notes sessions that were found dead.
    pub(super) fn bury(&mut self, dead: &Dead) {
        self.dead.extend(dead.iter().cloned());
    }

    /// Deletes the rows of sessions that were found dead. What they still hold elsewhere is
    /// over all the same, as they have no row.
    pub(super) fn bury_dead(&self) -> Result<()> {
        for session in &self.dead {
            sessions::delete(self.sql, session)?;
        }
        Ok(())
    }

    /// A resource, and as much of its line as is wanted.
    pub(super) fn load(&self, resource: &Resource, line: Line<'_>) -> Result<Loaded> {
        load(self.sql, &self.store.sessions, resource, line, &self.moment)
    }

    /// Decides on a resource, with what was proved of its sessions before. Nothing is written
    /// yet. Whoever would be granted something from the line is proved here: a dead one is
    /// passed over at once. Where one is dead others may be, so the whole line is
    /// proved then, and decided upon once more.
    pub(super) fn decide(
        &mut self,
        resource: &Resource,
        line: Line<'_>,
        ask: &Ask,
        dead: &Dead,
    ) -> Result<(Loaded, Decision)> {
        let sessions = &self.store.sessions;
        let mut dead = dead.clone();
        let mut loaded = self.load(resource, line)?;
        let mut all_proved = false;
        loop {
            loaded.bury(&dead);
            let decision = self.decide_alone(&loaded, ask);
            if loaded.is_exhausted_by(&decision) {
                loaded = self.load(resource, Line::All)?;
                continue;
            }
            let mut granted = granted_from(&loaded, &decision);
            if all_proved || granted.is_empty() || sessions.dead(self.sql, &granted)?.is_empty() {
                self.dead.extend(dead);
                return Ok((loaded, decision));
            }
            loaded = self.load(resource, Line::All)?;
            granted = loaded
                .waiters
                .iter()
                .map(|row| row.session.clone())
                .collect();
            dead.extend(sessions.dead(self.sql, &granted)?);
            all_proved = true;
        }
    }

    /// Decides on what is loaded, and nothing else.
    pub(super) fn decide_alone(&self, loaded: &Loaded, ask: &Ask) -> Decision {
        decide(&loaded.state(), ask, self.moment.boot)
    }

    /// Writes changes. The lease that was granted to the newcomer, if one was.
    pub(super) fn write(
        &mut self,
        resource: &Resource,
        loaded: &Loaded,
        changes: &[Change],
        newcomer: Newcomer<'_>,
    ) -> Result<Option<Lease>> {
        let mut granted = None;
        for change in changes {
            match change {
                Change::Grant(holder) => match newcomer {
                    Newcomer::Lease(request) if request.lease == holder.lease => {
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
                Change::SetStanding { lease, standing } => {
                    self.set_standing(loaded, lease, standing)?;
                }
                Change::SetBinding { lease, binding } => self.set_binding(lease, binding)?,
                Change::Remove { lease, end } => self.remove(loaded, lease, *end)?,
                Change::Enqueue(waiter) => self.enqueue(resource, loaded, waiter, newcomer)?,
                // A waiter that is granted is still needed: its row becomes the lease.
                Change::Dequeue(lease) if !grants(changes, lease) => self.dequeue(loaded, lease)?,
                Change::Dequeue(_) => {}
            }
        }
        Ok(granted)
    }

    /// Grants to who asks, at once.
    pub(super) fn grant(&mut self, request: &Request, current: Token) -> Result<Lease> {
        const INSERT: &str = "INSERT INTO dal_locks (lock_id, owner, heartbeat_ts, metadata, \
            resource, mode, session, token, acquired_at, binding, state, boot_id, pid, host, \
            command, purpose) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?3, 'session', 'held', ?9, \
            ?10, ?11, ?12, ?13)";
        let asker = &request.asker;
        self.record(asker)?;
        let token = self.token_after(current, &request.resource, request.mode)?;
        let lease = begin(request, token, &self.moment);
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
        ];
        self.sql.execute(INSERT, row)?;
        self.audit(Action::Acquire, &lease, None, false)?;
        self.granted(&lease)?;
        Ok(lease)
    }

    /// Grants to the next in line: the row of the waiter becomes that of an offer.
    fn offer(&mut self, resource: &Resource, loaded: &Loaded, holder: &Holder) -> Result<()> {
        const INSERT: &str = "INSERT INTO dal_locks (lock_id, owner, heartbeat_ts, metadata, \
            resource, mode, session, token, acquired_at, binding, state, until_boot, boot_id, \
            pid, host, command, purpose) \
            SELECT lock_id, owner, ?2, metadata, resource, mode, session, ?3, ?2, 'session', \
            'offered', ?4, ?5, pid, host, command, purpose FROM waiters WHERE place = ?1";
        let waiter = loaded.waiter(&holder.lease);
        let waiter = waiter.ok_or_else(|| Error::Internal("a grant to nobody".into()))?;
        let until = match holder.standing {
            Standing::Offered { until } => column(until),
            Standing::Held | Standing::Revoking { .. } => None,
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
        let owner = &waiter.owner;
        let actor = self.actor.as_ref().unwrap_or(owner);
        let line = audit::Line {
            action: Action::Acquire,
            resource,
            lease: &holder.lease,
            token,
            owner,
            actor,
            reason: Some("next in line"),
            ends: false,
        };
        audit::append(self.sql, &line, self.drawn, &self.moment)?;
        self.wake.push(waiter.session.clone());
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
        self.durable |= held.ttl.is_some();
        let waiter = loaded.waiter(&lease.lease);
        let row = params![
            lease.lease.as_str(),
            mode.as_str(),
            upgraded,
            signed(lease.token),
            waiter.map(|waiter| waiter.session.as_str()),
        ];
        self.sql.execute(UPDATE, row)?;
        // An upgrade that waited is told; its place in line is gone with this step.
        if let Some(waiter) = waiter {
            self.wake.push(waiter.session.clone());
        }
        let action = match mode {
            Mode::Write => Action::Upgrade,
            Mode::Read | Mode::Upgradeable => Action::Downgrade,
        };
        if mode.is_exclusive() {
            self.upgraded(&lease)?;
        }
        self.audit(action, &lease, None, false)
    }

    fn set_standing(
        &mut self,
        loaded: &Loaded,
        lease: &LeaseId,
        standing: &Standing,
    ) -> Result<()> {
        // All times of a row are of one boot, so those it has are carried over to this one.
        const UPDATE: &str = "UPDATE dal_locks SET state = ?2, until_boot = ?3, boot_id = ?4, \
            expires_boot = ?5, heartbeat_boot = ?6, heartbeat_ts = coalesce(?7, heartbeat_ts) \
            WHERE lock_id = ?1";
        let held = self.lease_of(loaded, lease)?;
        // Accepting is a sign of life of the holder; being broken is none.
        let (state, until, seen) = match standing {
            Standing::Held => ("held", None, Some(self.moment.wall.to_string())),
            Standing::Offered { until } => ("offered", column(*until), None),
            Standing::Revoking { until } => ("revoking", column(*until), None),
        };
        let (expires, heartbeat) = match &held.holder.binding {
            Bound::Session => (None, None),
            Bound::Lease { expires, stale, .. } => {
                let grace = millis(grace(held.ttl.unwrap_or_default()));
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
            state = 'held', until_boot = NULL WHERE lock_id = ?1";
        let Bound::Lease { expires, .. } = binding else {
            return Err(Error::Internal(
                "a lease does not go back to its session".into(),
            ));
        };
        let ttl = expires.saturating_sub(self.moment.boot);
        let expires_at = self
            .moment
            .wall
            .after(std::time::Duration::from_millis(ttl));
        self.durable();
        let row = params![
            lease.as_str(),
            expires_at.to_string(),
            column(*expires),
            self.moment.wall.to_string(),
            column(self.moment.boot),
            column(ttl),
            self.moment.boot_id,
        ];
        self.sql.execute(UPDATE, row).map(drop)
    }

    fn remove(&mut self, loaded: &Loaded, lease: &LeaseId, end: End) -> Result<()> {
        let held = self.lease_of(loaded, lease)?.clone();
        self.end(&held, end)
    }

    /// Ends a lease, and says how in the audit.
    pub(super) fn end(&mut self, held: &LeaseRow, end: End) -> Result<()> {
        const DELETE: &str = "DELETE FROM dal_locks WHERE lock_id = ?1";
        let id = &held.lease.lease;
        let bound = held.ttl.is_some();
        self.sql.execute(DELETE, params![id.as_str()])?;
        if bound {
            claims::forget(self.sql, id)?;
        }
        self.durable |= bound;
        let (action, reason) = match end {
            End::Released => (Action::Release, None),
            End::SessionEnded => (Action::SessionEnded, Some(audit::session_ended(held))),
            End::Recovered => (Action::Recover, Some(audit::recovered(held, &self.moment))),
            End::OfferLapsed => (Action::Expire, Some(audit::OFFER_LAPSED.to_owned())),
            End::Broken => (Action::Lost, Some(audit::not_confirmed(held))),
        };
        self.audit(action, &held.lease, reason.as_deref(), bound)
    }

    fn enqueue(
        &mut self,
        resource: &Resource,
        loaded: &Loaded,
        waiter: &Waiter,
        newcomer: Newcomer<'_>,
    ) -> Result<()> {
        const INSERT: &str = "INSERT INTO waiters (lock_id, resource, want, mode, capacity, \
            session, holder_session, owner, since, deadline, deadline_boot, boot_id, pid, host, \
            command, purpose, metadata) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
        let (want, mode, request, asker, deadline) = match newcomer {
            Newcomer::Lease(request) => (
                "lease",
                request.mode,
                Some(request),
                &request.asker,
                request.deadline,
            ),
            Newcomer::Upgrade(upgrade) => (
                "upgrade",
                Mode::Write,
                None,
                &upgrade.asker,
                upgrade.deadline,
            ),
            Newcomer::None => return Err(Error::Internal("nobody to queue".into())),
        };
        // Whoever waits to upgrade asks for the session that holds the lease.
        let holder = loaded.lease(&waiter.lease).map(|held| &held.lease.session);
        let metadata = request.and_then(|request| request.metadata.as_ref());
        self.record(asker)?;
        let row = params![
            waiter.lease.as_str(),
            resource.as_str(),
            want,
            mode.as_str(),
            request.and_then(|request| request.capacity),
            asker.session.as_str(),
            holder.unwrap_or(&asker.session).as_str(),
            asker.owner.as_str(),
            self.moment.wall.to_string(),
            deadline.map(|at| at.to_string()),
            column(waiter.deadline),
            self.moment.boot_id,
            asker.pid,
            asker.host,
            asker.command,
            request.and_then(|request| request.purpose.as_deref()),
            metadata.map(ToString::to_string),
        ];
        self.sql.execute(INSERT, row).map(drop)
    }

    fn dequeue(&mut self, loaded: &Loaded, lease: &LeaseId) -> Result<()> {
        const DELETE: &str = "DELETE FROM waiters WHERE place = ?1";
        match loaded.waiter(lease) {
            Some(waiter) => self.sql.execute(DELETE, params![waiter.place]).map(drop),
            // Queued by this very decision and out of time already: it was never written.
            None => Ok(()),
        }
    }

    /// The token of a grant: a new one if it is exclusive, else the current one.
    fn token_for(&mut self, resource: &Resource, mode: Mode) -> Result<Token> {
        let current = load_token(self.sql, resource)?;
        self.token_after(current, resource, mode)
    }

    fn token_after(&mut self, current: Token, resource: &Resource, mode: Mode) -> Result<Token> {
        const UPSERT: &str = "INSERT INTO resources (resource, token) VALUES (?1, ?2) \
            ON CONFLICT (resource) DO UPDATE SET token = ?2";
        let token = self.draw(current)?;
        if !mode.is_exclusive() {
            return Ok(current);
        }
        let row = params![resource.as_str(), signed(token)];
        self.sql.execute(UPSERT, row)?;
        Ok(token)
    }

    /// Draws a token, and makes sure with the first that nothing is missing in this database that
    /// someone alive relies on: see [`anchor`](crate::anchor).
    fn draw(&mut self, floor: Token) -> Result<Token> {
        let token = match self.drawn {
            Some(drawn) => self.sql.draw(floor.max(drawn))?.token,
            None => {
                let known = audit::last_drawn(self.sql)?;
                let drawn = self.sql.draw(floor.max(known))?;
                if drawn.before.is_none_or(|before| before > known) {
                    self.sql.check_nothing_is_missing(known)?;
                }
                drawn.token
            }
        };
        self.drawn = Some(token);
        Ok(token)
    }

    /// Appends to the audit.
    pub(super) fn audit(
        &self,
        action: Action,
        lease: &Lease,
        reason: Option<&str>,
        ends: bool,
    ) -> Result<()> {
        let line = audit::Line {
            action,
            resource: &lease.resource,
            lease: &lease.lease,
            token: lease.token,
            owner: &lease.owner,
            actor: self.actor.as_ref().unwrap_or(&lease.owner),
            reason,
            ends,
        };
        audit::append(self.sql, &line, self.drawn, &self.moment)
    }

    fn lease_of<'l>(&self, loaded: &'l Loaded, lease: &LeaseId) -> Result<&'l LeaseRow> {
        let held = loaded.lease(lease);
        held.ok_or_else(|| {
            Error::Internal(format!("a change to lease {lease}, which is not there"))
        })
    }
}

/// The sessions that would be granted something they wait for.
fn granted_from(loaded: &Loaded, decision: &Decision) -> Vec<SessionId> {
    let granted = decision.changes.iter().filter_map(|change| match change {
        Change::Grant(Holder { lease, .. }) | Change::SetMode { lease, .. } => loaded.waiter(lease),
        _ => None,
    });
    granted.map(|waiter| waiter.session.clone()).collect()
}

fn grants(changes: &[Change], lease: &LeaseId) -> bool {
    let is = |change: &Change| matches!(change, Change::Grant(holder) if holder.lease == *lease);
    changes.iter().any(is)
}

/// The lease of a request, granted now.
fn begin(request: &Request, token: Token, moment: &Moment) -> Lease {
    let asker = &request.asker;
    Lease {
        lease: request.lease.clone(),
        resource: request.resource.clone(),
        mode: request.mode,
        owner: asker.owner.clone(),
        session: asker.session.clone(),
        token,
        acquired_at: moment.wall,
        expires_at: None,
        heartbeat_at: moment.wall,
        binding: tenure_core::Binding::Session,
        state: tenure_core::LeaseState::Held,
        pid: asker.pid,
        host: asker.host.clone(),
        command: asker.command.clone(),
        purpose: request.purpose.clone(),
        metadata: request.metadata.clone(),
    }
}

fn signed(token: Token) -> i64 {
    token.get().cast_signed()
}
