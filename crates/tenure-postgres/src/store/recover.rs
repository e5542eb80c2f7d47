//! Stale leases: the conditions that hold for each, and the end of a lease for which all do.
//!
//! | condition | a lease | an offer |
//! |---|---|---|
//! | its time is over | `lease_expires` has passed | its process is not seen any more |
//! | its holder shows no sign of life | the heartbeat is older than the grace period of the lease | follows from that |
//! | no job needs it | no active job claims it | – |
//! | it is on record | written in the same transaction | written in the same transaction |
//!
//! Findings are read without a transaction, for people to see. Each lease that ends is decided
//! anew, in a step on its resource: a lease that was renewed in between stays.

use std::collections::HashMap;

use tenure_core::decide::{Ask, Bound, Change, Life, Millis};
use tenure_core::internal::loaded::{LineExtent, removes};
use tenure_core::leases::{Finding, Findings, Recovery};
use tenure_core::{Owner, Resource, Result};

use super::claims::claimants;
use super::inner::Inner;
use super::list;
use super::moment::Moment;
use super::row::{LeaseRow, parsed};
use super::sql::{Statement, values};
use super::step::Step;

/// The number of leases that one call looks at.
const PAGE: usize = 1000;

impl Inner {
    pub(super) async fn recover(
        &self,
        actor: &Owner,
        recovery: Recovery,
        after: Option<&str>,
    ) -> Result<Findings> {
        let (mut findings, next) = self.retrying(|| self.find_stale(after)).await?;
        if recovery == Recovery::Real {
            for finding in findings.iter_mut().filter(|found| found.recoverable) {
                finding.recovered = self.recover_one(actor, &finding.lease).await?;
            }
            if next.is_none() {
                self.sweep_lines().await?;
            }
        }
        Ok(Findings::new(findings, next))
    }

    /// Returns every lease on a page that looks stale.
    async fn find_stale(&self, after: Option<&str>) -> Result<(Vec<Finding>, Option<String>)> {
        let sql = self.lend().await?;
        let (rows, moment, next) = list::page(&sql, after, PAGE).await?;
        let expired = |row: &LeaseRow| match row.holder.binding {
            Bound::Lease { expires, .. } => expires <= moment.now(),
            Bound::Session => false,
        };
        let ids: Vec<&str> = rows
            .iter()
            .filter(|row| expired(row))
            .map(|row| row.lease.lease.as_str())
            .collect();
        let claimed: HashMap<String, String> = if ids.is_empty() {
            HashMap::new()
        } else {
            claimants(&sql, &ids).await?.into_iter().collect()
        };
        let findings = rows.iter().filter_map(|row| {
            let by = claimed.get(row.lease.lease.as_str()).cloned();
            finding(row, by, &moment)
        });
        Ok((findings.collect(), next))
    }

    /// Ends a stale lease and moves the line on. Returns true if it was there, and still stale.
    async fn recover_one(&self, actor: &Owner, stale: &tenure_core::Lease) -> Result<bool> {
        let moved = || self.grant_next(&stale.resource, LineExtent::Front, Some(actor));
        let changes = self.retrying(moved).await?;
        Ok(removes(&changes, &stale.lease))
    }

    /// Removes the leases and waiters of a resource whose time is over, and grants to the next in
    /// line. Returns the changes.
    pub(super) async fn grant_next(
        &self,
        resource: &Resource,
        extent: LineExtent<'_>,
        actor: Option<&Owner>,
    ) -> Result<Vec<Change>> {
        let Some(mut step) = Step::on(self, Millis::MAX, resource, extent).await? else {
            return Ok(Vec::new());
        };
        step.actor = actor.cloned();
        let decision = step.decide(&Ask::Look).await?;
        step.write(&decision.changes, None)?;
        step.commit().await?;
        Ok(decision.changes)
    }

    /// Removes waiters that are dead or out of time, and offers that were not taken up. A step that
    /// moves a line on removes them too, but no such step is made while the resource is held.
    async fn sweep_lines(&self) -> Result<()> {
        // Relies on no isolation: each line is looked at again under the lock of its resource.
        const SELECT: &str = "SELECT o.resource FROM (SELECT w.resource FROM tenure.waiters AS w \
            WHERE w.deadline <= pg_catalog.clock_timestamp() OR NOT EXISTS (SELECT 1 FROM \
            tenure.processes AS p WHERE p.process = w.process \
            AND p.seen_at > pg_catalog.clock_timestamp() - interval '15 seconds') \
            UNION SELECT l.resource FROM tenure.dal_locks AS l \
            WHERE l.until <= pg_catalog.clock_timestamp()) AS o \
            WHERE o.resource > $1 ORDER BY o.resource LIMIT $2";
        let mut after = String::new();
        loop {
            let statement = Statement::new(SELECT, values![after.clone(), PAGE as i64]);
            let rows = self.rows(&statement).await?;
            let lines = rows.iter().map(|row| parsed(row, 0));
            let lines: Vec<Resource> = lines.collect::<Result<_>>()?;
            let Some(last) = lines.last() else {
                return Ok(());
            };
            for resource in &lines {
                self.retrying(|| self.grant_next(resource, LineExtent::All, None))
                    .await?;
            }
            after = last.to_string();
        }
    }
}

/// Returns why a lease looks stale, or `None` if it does not.
fn finding(row: &LeaseRow, claimed_by: Option<String>, moment: &Moment) -> Option<Finding> {
    match row.holder.binding {
        Bound::Session if row.holder.life == Life::Dead => Some(dead_offer(row)),
        _ => row.stale(claimed_by, moment.now()),
    }
}

fn dead_offer(row: &LeaseRow) -> Finding {
    let session = &row.lease.session;
    let reason = format!("on offer to session {session}, whose process has not been seen for 15s");
    Finding::dead(&row.lease, reason)
}
