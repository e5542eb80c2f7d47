//! Leases that can outlive the session that took them.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::params;
use tenure_core::audit::{AuditPage, AuditQuery};
use tenure_core::leases::{Findings, KeyState, Keyed, Recovery};
use tenure_core::{Asker, Lease, LeaseId, LeaseState, LeaseStore, Owner, Reply, Result, SessionId};

use super::SqliteStore;
use super::inner::Inner;
use super::load::{DeadSessions, load_lease};
use super::moment::Moment;
use super::row::{LEASE_COLUMNS, read_lease};
use crate::connection::Rows;
use crate::session_file::Proof;

impl Inner {
    async fn look_up(&self, lease: &LeaseId) -> Result<Option<Lease>> {
        let found = self.read(|sql| {
            let moment = Moment::now()?;
            let row = load_lease(sql, lease, &moment)?;
            let Some(row) = row else { return Ok(None) };
            let proof = match row.ends_with_session() {
                true => self.sessions.prove(sql, &row.lease.session)?,
                false => Proof::Alive,
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
            drop(self.move_on_now(&lease.resource, &dead));
            return Ok(None);
        }
        if proof == Proof::Unknown && lease.state == LeaseState::Held {
            lease.state = LeaseState::Unknown;
        }
        Ok(Some(lease))
    }

    async fn of_one_session(&self, session: &SessionId) -> Result<Vec<Lease>> {
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

impl LeaseStore for SqliteStore {
    fn find<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Lease>> {
        Box::pin(self.inner.look_up(lease))
    }

    fn ended<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<String>> {
        Box::pin(self.inner.how_it_ended(lease))
    }

    fn of_session<'a>(&'a self, session: &'a SessionId) -> Reply<'a, Vec<Lease>> {
        Box::pin(self.inner.of_one_session(session))
    }

    fn bind<'a>(
        &'a self,
        leases: &'a [LeaseId],
        ttl: Duration,
        keyed: Option<&'a Keyed>,
    ) -> Reply<'a, Vec<Lease>> {
        Box::pin(self.inner.bind_all(leases, ttl, keyed))
    }

    fn begin_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, KeyState> {
        Box::pin(self.inner.take_key(keyed))
    }

    fn forget_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, ()> {
        Box::pin(self.inner.drop_key(keyed))
    }

    fn extend<'a>(&'a self, lease: &'a LeaseId, ttl: Option<Duration>) -> Reply<'a, Lease> {
        Box::pin(self.inner.give_time(lease, ttl))
    }

    fn recover<'a>(
        &'a self,
        actor: &'a Owner,
        recovery: Recovery,
        after: Option<&'a str>,
    ) -> Reply<'a, Findings> {
        Box::pin(self.inner.recover_page(actor, recovery, after))
    }

    fn break_lease<'a>(
        &'a self,
        lease: &'a LeaseId,
        actor: &'a Owner,
        reason: &'a str,
    ) -> Reply<'a, Lease> {
        Box::pin(self.inner.revoke(lease, actor, reason))
    }

    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Reply<'a, AuditPage> {
        Box::pin(self.inner.read_audit(query))
    }

    fn claim<'a>(
        &'a self,
        lease: &'a LeaseId,
        claimant: &'a str,
        asker: &'a Arc<Asker>,
    ) -> Reply<'a, ()> {
        Box::pin(self.inner.add_claim(lease, claimant, asker))
    }

    fn unclaim<'a>(&'a self, lease: &'a LeaseId, claimant: &'a str) -> Reply<'a, ()> {
        Box::pin(self.inner.drop_claim(lease, claimant))
    }
}
