//! The sessions of this process, and what can be proved of those of others.
//!
//! # The life of a session
//!
//! 1. Its file is made and locked ([`SessionFile::begin`]).
//! 2. Its row, with device, inode and boot id of the file, is written in the transaction of
//!    its first lease or waiter.
//! 3. At the end the row is deleted, then the file is unlinked while still locked.
//!
//! A crash after 1 leaves a file that nobody names: it is removed by whoever sweeps. A crash
//! after 2 frees the lock of the file, and the next to look proves the session dead. A crash
//! within 3 leaves a file that nobody names.
//!
//! What a session holds it claims by a number (`session_file`), from before the commit of the
//! grant until the lease is over or the grant failed: never more than it holds, lest others are
//! kept waiting for it after an older copy of the database was put in place.
//!
//! A lease whose session has no row belongs to a session that is over: a row is deleted only
//! by the session itself, at its end, or by who proved it dead.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::params;
use tenure_core::{Asker, LeaseId, Result, SessionId, Token};

use super::load::Dead;
use super::moment::Moment;
use super::row::{number, text};
use super::step::Grant;
use crate::connection::{Rows, Sql};
use crate::session_file::{Proof, SessionFile, prove};

/// The sessions of this process.
pub(super) struct Sessions {
    directory: PathBuf,
    own: Mutex<HashMap<SessionId, Own>>,
    /// Sessions that claim what is not committed yet.
    unsettled: Mutex<Vec<SessionId>>,
}

struct Own {
    file: Arc<SessionFile>,
    /// What it holds, so that the end is known, and the number it claims each by.
    leases: HashMap<LeaseId, Token>,
    /// The same by number.
    numbers: BTreeSet<(Token, LeaseId)>,
    /// The number of what a step under way grants it.
    pending: Token,
    /// The number up to which it claims.
    claimed: Token,
}

impl Sessions {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            own: Mutex::default(),
            unsettled: Mutex::default(),
        }
    }

    fn unsettled(&self) -> std::sync::MutexGuard<'_, Vec<SessionId>> {
        self.unsettled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Own>> {
        // A panic elsewhere leaves the map whole: every change to it is one call.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of a session of this process, made and locked on its first use. One that is
    /// no longer in its place is made again, but only while the session holds nothing: a
    /// command may have inherited the old one, and is protected by that alone.
    pub(super) fn file(&self, session: &SessionId) -> Result<Arc<SessionFile>> {
        let mut own = self.own();
        if let Some(known) = own.get(session)
            && (!known.leases.is_empty() || known.file.is_in_place())
        {
            return Ok(Arc::clone(&known.file));
        }
        let file = Arc::new(SessionFile::begin(&self.directory, session)?);
        let new = Own {
            file: Arc::clone(&file),
            leases: HashMap::new(),
            numbers: BTreeSet::new(),
            pending: Token::NONE,
            claimed: Token::NONE,
        };
        own.insert(session.clone(), new);
        Ok(file)
    }

    fn known(&self, session: &SessionId) -> Option<Arc<SessionFile>> {
        self.own().get(session).map(|own| Arc::clone(&own.file))
    }

    /// Writes the row of a session of this process, unless it is there and says the same. Asked
    /// in every step that grants or queues: the database may be another than a moment ago,
    /// and a lease whose session has no row counts as over.
    pub(super) fn record(&self, sql: &Sql<'_>, asker: &Asker, moment: &Moment) -> Result<()> {
        const UPSERT: &str = "INSERT INTO sessions \
            (session, device, inode, boot_id, pid, host, owner, started_at) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (session) DO UPDATE \
            SET device = excluded.device, inode = excluded.inode, boot_id = excluded.boot_id \
            WHERE (device, inode, boot_id) \
            IS NOT (excluded.device, excluded.inode, excluded.boot_id)";
        let file = match self.known(&asker.session) {
            Some(file) => file,
            None => self.file(&asker.session)?,
        };
        let row = params![
            asker.session.as_str(),
            file.device().cast_signed(),
            file.inode().cast_signed(),
            moment.boot_id,
            asker.pid,
            asker.host,
            asker.owner.as_str(),
            moment.wall.to_string(),
        ];
        sql.execute(UPSERT, row).map(drop)
    }

    /// Claims what a step is about to grant to a session of this process. It has to be settled or
    /// noted before the next step.
    pub(super) fn claim(&self, session: &SessionId, number: Token) -> Result<()> {
        if let Some(own) = self.own().get_mut(session) {
            if own.claimed < number {
                own.file.claim(number)?;
                own.claimed = number;
            }
            // Meanwhile another thread may end a lease, and claim less.
            own.pending = number;
            self.unsettled().push(session.clone());
        }
        Ok(())
    }

    /// Takes back claims of a step that failed, or whose grants are worth nothing.
    pub(super) fn settle(&self) {
        for session in self.unsettled().drain(..) {
            if let Some(own) = self.own().get_mut(&session) {
                own.pending = Token::NONE;
                own.settle();
            }
        }
    }

    /// Notes leases that were granted to sessions of this process.
    pub(super) fn note(&self, granted: Vec<Grant>) {
        self.unsettled().clear();
        let mut own = self.own();
        for grant in granted {
            if let Some(own) = own.get_mut(&grant.session) {
                own.forget(&grant.lease);
                own.numbers.insert((grant.number, grant.lease.clone()));
                own.leases.insert(grant.lease, grant.number);
                own.pending = Token::NONE;
            }
        }
    }

    /// Notes that a session of this process no longer keeps a lease.
    pub(super) fn no_longer_holds(&self, lease: &LeaseId) {
        for own in self.own().values_mut() {
            if own.forget(lease) {
                own.settle();
            }
        }
    }

    /// Whether this is a session of this process, and keeps a lease.
    pub(super) fn keeps(&self, session: &SessionId, lease: &LeaseId) -> bool {
        let own = self.own();
        own.get(session)
            .is_some_and(|own| own.leases.contains_key(lease))
    }

    /// The file that keeps a lease held, if it belongs to a session of this process.
    pub(super) fn keeping(&self, lease: &LeaseId) -> Option<Arc<SessionFile>> {
        let own = self.own();
        let keeping = own.values().find(|own| own.leases.contains_key(lease));
        keeping.map(|own| Arc::clone(&own.file))
    }

    /// Forgets a session of this process. Its file stays locked for as long as the answer lives.
    pub(super) fn forget(&self, session: &SessionId) -> Option<Arc<SessionFile>> {
        self.own().remove(session).map(|own| own.file)
    }

    /// Forgets the sessions of this process that hold nothing, and ends their files: in a
    /// database that took the place of another, what waits begins anew.
    pub(super) fn begin_anew(&self) {
        let mut own = self.own();
        own.retain(|_, own| {
            let holds = !own.leases.is_empty();
            if !holds {
                own.file.end();
            }
            holds
        });
    }

    /// What can be proved of a session.
    pub(super) fn prove(&self, sql: &Sql<'_>, session: &SessionId) -> Result<Proof> {
        const SELECT: &str = "SELECT device, inode, boot_id FROM sessions WHERE session = ?1";
        if self.own().contains_key(session) {
            return Ok(Proof::Alive);
        }
        let row = sql.one(SELECT, params![session.as_str()], |row| {
            let device: i64 = number(row, 0)?;
            let inode: i64 = number(row, 1)?;
            Ok((device.cast_unsigned(), inode.cast_unsigned(), text(row, 2)?))
        })?;
        match row {
            None => Ok(Proof::Dead),
            Some((device, inode, boot_id)) => {
                prove(&self.directory, session, device, inode, &boot_id)
            }
        }
    }

    /// Those of some sessions that are proved dead.
    pub(super) fn dead<'a>(
        &self,
        sql: &Sql<'_>,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Result<Dead> {
        let mut dead = Dead::new();
        let mut seen = HashSet::new();
        for session in sessions {
            if seen.insert(session) && self.prove(sql, session)? == Proof::Dead {
                dead.insert(session.clone());
            }
        }
        Ok(dead)
    }
}

impl Own {
    /// Forgets a lease. Whether it was held.
    fn forget(&mut self, lease: &LeaseId) -> bool {
        let Some(number) = self.leases.remove(lease) else {
            return false;
        };
        self.numbers.remove(&(number, lease.clone()));
        true
    }

    /// Claims no more than what it holds or is about to.
    fn settle(&mut self) {
        let holds = self.numbers.last().map(|(number, _)| *number);
        let holds = holds.unwrap_or(Token::NONE).max(self.pending);
        if holds < self.claimed {
            self.file.claim_no_more_than(holds);
            self.claimed = holds;
        }
    }
}

/// The rows of a few sessions, from one on: to be proved, and swept if dead.
pub(super) fn page(sql: &Sql<'_>, after: &str, limit: usize) -> Result<Vec<SessionId>> {
    const SELECT: &str =
        "SELECT session FROM sessions WHERE session > ?1 ORDER BY session LIMIT ?2";
    let limit_column = i64::try_from(limit).unwrap_or(i64::MAX);
    sql.query(
        SELECT,
        params![after, limit_column],
        Rows::AtMost(limit),
        |row| super::row::parsed(row, 0),
    )
}

/// Deletes the row of a session.
pub(super) fn delete(sql: &Sql<'_>, session: &SessionId) -> Result<()> {
    const DELETE: &str = "DELETE FROM sessions WHERE session = ?1";
    sql.execute(DELETE, params![session.as_str()]).map(drop)
}

/// Whether a session has a row.
pub(super) fn is_recorded(sql: &Sql<'_>, session: &SessionId) -> Result<bool> {
    const SELECT: &str = "SELECT 1 FROM sessions WHERE session = ?1";
    let row = sql.one(SELECT, params![session.as_str()], |_| Ok(()))?;
    Ok(row.is_some())
}
