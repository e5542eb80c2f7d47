//! The sessions of this process, and proofs about the sessions of others.
//!
//! # The life of a session
//!
//! 1. Its file is created and locked ([`SessionFile::begin`]).
//! 2. Its row, with device, inode and boot id of the file, is written in the transaction of
//!    its first lease or waiter.
//! 3. At the end the row is deleted, then the file is unlinked while still locked.
//!
//! A crash after 1 leaves a file without a row, which a sweep removes. A crash after 2 frees the
//! lock of the file, and the next look proves the session dead. A crash within 3 leaves a file
//! without a row.
//!
//! A lease whose session has no row belongs to a session that is over: a row is deleted only
//! by the session itself, at its end, or by a process that proved it dead.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::params;
use rustix::process::Signal;
use tenure_core::internal::lock;
use tenure_core::{Asker, Lease, LeaseId, Result, SessionId};

use super::load::DeadSessions;
use super::moment::Moment;
use super::row::{number, text};
use crate::connection::{Rows, Sql};
use crate::platform::{self, FileIdentity};
use crate::session_file::{Proof, SessionFile, prove};

/// The sessions of this process.
pub(super) struct Sessions {
    pub(super) directory: PathBuf,
    own: Mutex<HashMap<SessionId, OwnSession>>,
}

struct OwnSession {
    file: Arc<SessionFile>,
    /// The leases it holds.
    leases: HashSet<LeaseId>,
}

impl Sessions {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            own: Mutex::default(),
        }
    }

    /// Returns the file of a session of this process, created and locked on its first use. A file
    /// that is no longer at its path is created again, but only while the session holds nothing: a
    /// command may have inherited the old file, and is protected by that alone.
    pub(super) fn file(&self, session: &SessionId) -> Result<Arc<SessionFile>> {
        let mut own = lock(&self.own);
        if let Some(known) = own.get(session)
            && (!known.leases.is_empty() || known.file.is_in_place())
        {
            return Ok(Arc::clone(&known.file));
        }
        let file = Arc::new(SessionFile::begin(&self.directory, session)?);
        let new = OwnSession {
            file: Arc::clone(&file),
            leases: HashSet::new(),
        };
        own.insert(session.clone(), new);
        Ok(file)
    }

    /// Writes the row of a session of this process, unless it exists unchanged. Every step that
    /// grants or queues calls it: the database may have been replaced, and a lease whose session
    /// has no row counts as over.
    pub(super) fn record(&self, sql: &Sql<'_>, asker: &Asker, moment: &Moment) -> Result<()> {
        const UPSERT: &str = "INSERT INTO sessions \
            (session, device, inode, boot_id, pid, host, owner, started_at) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (session) DO UPDATE \
            SET device = excluded.device, inode = excluded.inode, boot_id = excluded.boot_id \
            WHERE (device, inode, boot_id) \
            IS NOT (excluded.device, excluded.inode, excluded.boot_id)";
        let own = lock(&self.own)
            .get(&asker.session)
            .map(|own| own.file.identity());
        let FileIdentity { device, inode } = match own {
            Some(identity) => identity,
            None => self.file(&asker.session)?.identity(),
        };
        let row = params![
            asker.session.as_str(),
            device.cast_signed(),
            inode.cast_signed(),
            moment.boot_id,
            asker.pid,
            asker.host,
            asker.owner.as_str(),
            moment.wall.to_string(),
        ];
        sql.execute(UPSERT, row).map(drop)
    }

    /// Notes leases that were granted to sessions of this process.
    pub(super) fn note(&self, granted: Vec<(SessionId, LeaseId)>) {
        let mut own = lock(&self.own);
        for (session, lease) in granted {
            if let Some(own) = own.get_mut(&session) {
                own.leases.insert(lease);
            }
        }
    }

    /// Notes that a session of this process no longer keeps a lease.
    pub(super) fn no_longer_holds(&self, lease: &LeaseId) {
        for own in lock(&self.own).values_mut() {
            own.leases.remove(lease);
        }
    }

    /// Returns the session file that keeps a lease, if its session is of this process.
    pub(super) fn keeping(&self, lease: &LeaseId) -> Option<Arc<SessionFile>> {
        let own = lock(&self.own);
        let keeping = own.values().find(|own| own.leases.contains(lease));
        keeping.map(|own| Arc::clone(&own.file))
    }

    /// Forgets a session of this process. Its file stays locked until the returned value is
    /// dropped.
    pub(super) fn forget(&self, session: &SessionId) -> Option<Arc<SessionFile>> {
        lock(&self.own).remove(session).map(|own| own.file)
    }

    /// Forgets the sessions of this process that hold nothing, and removes their files: they begin
    /// again in the new database.
    pub(super) fn begin_anew(&self) {
        let mut own = lock(&self.own);
        own.retain(|_, own| {
            let holds = !own.leases.is_empty();
            if !holds {
                own.file.end();
            }
            holds
        });
    }

    /// Proves a session alive or dead, as far as that is possible.
    pub(super) fn prove(&self, sql: &Sql<'_>, session: &SessionId) -> Result<Proof> {
        const SELECT: &str = "SELECT device, inode, boot_id FROM sessions WHERE session = ?1";
        if lock(&self.own).contains_key(session) {
            return Ok(Proof::Alive);
        }
        let row = sql.one(SELECT, params![session.as_str()], |row| {
            let recorded = FileIdentity {
                device: number::<i64>(row, 0)?.cast_unsigned(),
                inode: number::<i64>(row, 1)?.cast_unsigned(),
            };
            Ok((recorded, text(row, 2)?))
        })?;
        match row {
            None => Ok(Proof::Dead),
            Some((recorded, boot_id)) => prove(&self.directory, session, recorded, &boot_id),
        }
    }

    /// Returns the processes that keep a session alive although the process of its lease has ended:
    /// they inherited its file.
    pub(super) fn survivors(&self, lease: &Lease) -> Vec<u32> {
        let holders = platform::holders_of_flock(&self.file_of(lease));
        if holders.contains(&lease.pid) || lease.host != platform::host_name() {
            return Vec::new();
        }
        holders
    }

    /// Returns the process id of a command that goes on, if the process of its lease seems to have
    /// ended.
    pub(super) fn command_of(&self, lease: &Lease) -> Option<u32> {
        let is_gone = platform::is_gone(lease.pid);
        is_gone.then(|| self.survivors(lease).first().copied())?
    }

    /// Signals the processes that [`survivors`](Self::survivors) found, if they keep the session
    /// still.
    pub(super) fn signal(&self, survivors: &[u32], lease: &Lease, signal: Signal) {
        let path = self.file_of(lease);
        for pid in survivors {
            platform::signal_holder_of_flock(*pid, &path, signal);
        }
    }

    fn file_of(&self, lease: &Lease) -> PathBuf {
        self.directory.join(lease.session.as_str())
    }

    /// Returns the sessions that are proved dead.
    pub(super) fn dead<'a>(
        &self,
        sql: &Sql<'_>,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Result<DeadSessions> {
        let mut dead = DeadSessions::new();
        let mut seen = HashSet::new();
        for session in sessions {
            if seen.insert(session) && self.prove(sql, session)? == Proof::Dead {
                dead.insert(session.clone());
            }
        }
        Ok(dead)
    }
}

/// Returns the ids of a page of sessions, after one.
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

/// Returns true if a session has a row.
pub(super) fn is_recorded(sql: &Sql<'_>, session: &SessionId) -> Result<bool> {
    const SELECT: &str = "SELECT 1 FROM sessions WHERE session = ?1";
    let row = sql.one(SELECT, params![session.as_str()], |_| Ok(()))?;
    Ok(row.is_some())
}
