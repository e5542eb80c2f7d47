//! One step: a write transaction, the decision in it, and who is woken after it.
//!
//! # The protocol
//!
//! 1. `BEGIN IMMEDIATE`. From here on nobody else writes.
//! 2. Load the resource, [`decide`], write the changes (`change`), draw tokens from the anchor,
//!    write the audit.
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
use tenure_core::decide::{Ask, Change, Decision, Holder, decide};
use tenure_core::{Asker, Lease, LeaseId, Mode, Owner, Resource, Result, SessionId, Token};

use super::inner::Inner;
use super::load::{Dead, Line, Loaded, load, load_token};
use super::moment::Moment;
use super::{audit, sessions};
use crate::connection::Sql;

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
    pub(super) drawn: Option<Token>,
    /// Sessions that were found dead: their rows go with this step.
    dead: Dead,
    pub(super) durable: bool,
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

    /// The token of a grant: a new one if it is exclusive, else the current one.
    pub(super) fn token_for(&mut self, resource: &Resource, mode: Mode) -> Result<Token> {
        let current = load_token(self.sql, resource)?;
        self.token_after(current, resource, mode)
    }

    pub(super) fn token_after(
        &mut self,
        current: Token,
        resource: &Resource,
        mode: Mode,
    ) -> Result<Token> {
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
}

/// The sessions that would be granted something they wait for.
fn granted_from(loaded: &Loaded, decision: &Decision) -> Vec<SessionId> {
    let granted = decision.changes.iter().filter_map(|change| match change {
        Change::Grant(Holder { lease, .. }) | Change::SetMode { lease, .. } => loaded.waiter(lease),
        _ => None,
    });
    granted.map(|waiter| waiter.session.clone()).collect()
}

/// A token as a column holds it.
pub(super) fn signed(token: Token) -> i64 {
    token.get().cast_signed()
}
