//! One step: a write transaction, the decision in it, and the wake-ups after it.
//!
//! # The protocol
//!
//! 1. `BEGIN IMMEDIATE`. From here on no other connection writes.
//! 2. Load the resource, [`decide`], write the changes (`change`), draw tokens from the anchor,
//!    write the audit.
//! 3. Commit: on disk if the verb or what was written requires it (see the front page).
//! 4. Wake exactly the sessions that were granted something.
//!
//! A crash before 3 changes only the anchor, which skips a number. A crash between 3 and 4 leaves a
//! waiter without its wake-up: its timer makes it look (`wait`).

use std::collections::HashSet;

use rusqlite::params;
use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Change, Decision, Holder, decide};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::{Asker, Lease, LeaseId, Mode, Owner, Resource, Result, SessionId, Token};

use super::inner::Inner;
use super::load::{DeadSessions, FRONT, Loaded, load, load_token, mark_dead};
use super::moment::Moment;
use super::{audit, sessions};
use crate::connection::Sql;

/// A write transaction under way.
pub(super) struct Step<'a> {
    pub(super) store: &'a Inner,
    pub(super) sql: &'a Sql<'a>,
    pub(super) moment: Moment,
    /// The actor for the audit, or `None` for the taker of the lease.
    pub(super) actor: Option<Owner>,
    pub(super) after: PostCommit,
}

/// The work to do after a step has committed.
#[derive(Default)]
pub(super) struct PostCommit {
    pub(super) wake: Vec<SessionId>,
    /// Grants to sessions of this process.
    pub(super) granted: Vec<(SessionId, LeaseId)>,
    /// Sessions that were proved dead: the step deletes their rows.
    pub(super) dead: DeadSessions,
}

impl<'a> Step<'a> {
    pub(super) fn new(store: &'a Inner, sql: &'a Sql<'a>) -> Result<Self> {
        Ok(Self {
            store,
            sql,
            moment: Moment::now()?,
            actor: None,
            after: PostCommit::default(),
        })
    }

    /// Writes the row of the asker's session if it is missing or differs.
    pub(super) fn record(&mut self, asker: &Asker) -> Result<()> {
        self.store.sessions.record(self.sql, asker, &self.moment)
    }

    /// Notes a lease that a session of this process holds once the step has committed.
    pub(super) fn granted(&mut self, lease: &Lease) {
        let granted = (lease.session.clone(), lease.lease.clone());
        self.after.granted.push(granted);
    }

    /// Notes sessions that were proved dead.
    pub(super) fn mark_dead(&mut self, dead: &DeadSessions) {
        self.after.dead.extend(dead.iter().cloned());
    }

    /// Deletes the rows of sessions that were proved dead. Leases they hold of other resources are
    /// over too, as a session without a row counts as dead.
    pub(super) fn delete_dead_sessions(&self) -> Result<()> {
        for session in &self.after.dead {
            sessions::delete(self.sql, session)?;
        }
        Ok(())
    }

    /// Loads a resource, and the wanted part of its line.
    pub(super) fn load(&self, resource: &Resource, line: LineExtent<'_>) -> Result<Loaded> {
        self.load_front(resource, line, FRONT)
    }

    fn load_front(
        &self,
        resource: &Resource,
        line: LineExtent<'_>,
        front: usize,
    ) -> Result<Loaded> {
        let sessions = &self.store.sessions;
        load(self.sql, sessions, resource, line, front, &self.moment)
    }

    /// Decides on a resource, given the sessions that were proved dead before. Nothing is written
    /// yet. A waiter that would be granted something is proved alive here. If it is dead, all
    /// loaded waiters are proved and the decision is made again without the dead ones.
    ///
    /// If the decision uses up the loaded front of the line, a longer front is loaded: a few dead
    /// waiters cost little in a long line, and thousands are still passed over in one step.
    pub(super) fn decide(
        &mut self,
        resource: &Resource,
        line: LineExtent<'_>,
        ask: &Ask,
        dead: &DeadSessions,
    ) -> Result<(Loaded, Decision)> {
        let sessions = &self.store.sessions;
        let mut dead = dead.clone();
        let mut alive = HashSet::new();
        let mut front = FRONT;
        let mut loaded = self.load_front(resource, line, front)?;
        loop {
            mark_dead(&mut loaded, &dead);
            let decision = self.decide_alone(&loaded, ask);
            if loaded.is_exhausted_by(&decision) {
                front = front.saturating_mul(FRONT);
                loaded = self.load_front(resource, line, front)?;
                continue;
            }
            let mut unproved = granted_from(&loaded, &decision);
            unproved.retain(|session| !alive.contains(session));
            if sessions.dead(self.sql, &unproved)?.is_empty() {
                self.after.dead.extend(dead);
                return Ok((loaded, decision));
            }
            let unproved = loaded.waiters.iter().map(|row| &row.session);
            let unproved = unproved.filter(|session| !alive.contains(*session));
            let unproved: Vec<SessionId> = unproved.cloned().collect();
            dead.extend(sessions.dead(self.sql, &unproved)?);
            alive.extend(
                unproved
                    .into_iter()
                    .filter(|session| !dead.contains(session)),
            );
        }
    }

    /// Decides, and writes the changes. There is no new request.
    pub(super) fn decide_and_write(
        &mut self,
        resource: &Resource,
        line: LineExtent<'_>,
        ask: &Ask,
        dead: &DeadSessions,
    ) -> Result<Decision> {
        let (loaded, decision) = self.decide(resource, line, ask, dead)?;
        self.write(resource, &loaded, &decision.changes, None)?;
        Ok(decision)
    }

    /// Decides on the loaded rows alone.
    pub(super) fn decide_alone(&self, loaded: &Loaded, ask: &Ask) -> Decision {
        decide(&loaded.state(), ask, self.moment.boot)
    }

    /// Returns the token of a grant: a new one if it is exclusive, otherwise the current one.
    pub(super) fn token_for(&mut self, resource: &Resource, mode: Mode) -> Result<Token> {
        let current = load_token(self.sql, resource)?;
        self.token_after(current, resource, mode)
    }

    /// Returns the token of a grant, given the current token, or `None` if the resource was never
    /// granted. Every resource that was granted gets a row, even if it was only ever shared.
    pub(super) fn token_after(
        &mut self,
        current: Option<Token>,
        resource: &Resource,
        mode: Mode,
    ) -> Result<Token> {
        const UPSERT: &str = "INSERT INTO resources (resource, token) VALUES (?1, ?2) \
            ON CONFLICT (resource) DO UPDATE SET token = ?2";
        let carried = current.unwrap_or(Token::NONE);
        let token = if mode.is_exclusive() {
            self.sql.draw(carried)?
        } else {
            carried
        };
        if current != Some(token) {
            let row = params![resource.as_str(), signed(token)];
            self.sql.execute(UPSERT, row)?;
        }
        Ok(token)
    }

    /// Appends an entry to the audit.
    pub(super) fn audit(
        &self,
        action: Action,
        lease: &Lease,
        reason: Option<&str>,
        ends: bool,
    ) -> Result<()> {
        let mut entry = audit::NewEntry::of_lease(action, lease, self.actor.as_ref());
        entry.reason = reason.map(str::to_owned);
        audit::append(self.sql, &entry, ends, &self.moment)
    }
}

/// Returns the waiting sessions that the decision grants something.
fn granted_from(loaded: &Loaded, decision: &Decision) -> Vec<SessionId> {
    let granted = decision.changes.iter().filter_map(|change| match change {
        Change::Grant(Holder { lease, .. }) | Change::SetMode { lease, .. } => loaded.waiter(lease),
        _ => None,
    });
    granted.map(|waiter| waiter.session.clone()).collect()
}

/// Returns a token as the value of a column.
pub(super) fn signed(token: Token) -> i64 {
    token.get().cast_signed()
}
