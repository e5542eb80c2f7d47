//! Leases that can outlive the session that took them: one of them, those of a session, their
//! tokens.

use rusqlite::params;
use tenure_core::{Binding, Lease, LeaseId, LeaseState, Resource, Result, SessionId, Token};

use super::inner::Inner;
use super::load::{DeadSessions, load_lease, load_token};
use super::moment::Moment;
use super::row::{LEASE_COLUMNS, read_lease};
use crate::connection::Rows;
use crate::session_file::Proof;

impl Inner {
    pub(super) async fn find(&self, lease: &LeaseId) -> Result<Option<Lease>> {
        let found = self.read(|sql| {
            let moment = Moment::now()?;
            let row = load_lease(sql, lease, &moment)?;
            let Some(row) = row else { return Ok(None) };
            let proof = if row.ends_with_session() {
                self.sessions.prove(sql, &row.lease.session)?
            } else {
                Proof::Alive
            };
            let over = row.has_run_out(moment.boot) || proof == Proof::Dead;
            Ok(Some((row.lease, proof, over)))
        });
        let Some((mut lease, proof, over)) = found.await? else {
            return Ok(None);
        };
        if over {
            let dead = (proof == Proof::Dead).then(|| lease.session.clone());
            let dead: DeadSessions = dead.into_iter().collect();
            // If that cannot be done now, the next step on the resource ends it.
            drop(self.grant_next_now(&lease.resource, &dead));
            return Ok(None);
        }
        if proof == Proof::Unknown && lease.state == LeaseState::Held {
            lease.state = LeaseState::Unknown;
        }
        if lease.binding == Binding::Session {
            lease.command_pid = self.sessions.command_of(&lease);
        }
        Ok(Some(lease))
    }

    pub(super) async fn token(&self, resource: &Resource) -> Result<Option<Token>> {
        self.read(|sql| load_token(sql, resource)).await
    }

    /// Returns false: a lease with an expiry has no guard here.
    pub(super) async fn has_guard(&self, _lease: &LeaseId) -> Result<bool> {
        Ok(false)
    }

    pub(super) async fn of_session(&self, session: &SessionId) -> Result<Vec<Lease>> {
        // The partial index holds just the leases that have an expiry.
        let select = format!(
            "SELECT {LEASE_COLUMNS} FROM dal_locks \
             WHERE session = ?1 AND expires_boot IS NOT NULL ORDER BY resource"
        );
        let rows = self.read(|sql| {
            let moment = Moment::now()?;
            sql.query(&select, params![session.as_str()], Rows::All, |row| {
                read_lease(row, &moment)
            })
        });
        Ok(rows.await?.into_iter().map(|row| row.lease).collect())
    }
}
