//! Stale leases: the conditions, and the recovery of leases that meet all of them.
//!
//! | condition | lease-bound | session-bound |
//! |---|---|---|
//! | its time is over | `expires` has passed | its session is proved dead |
//! | its holder is silent | the heartbeat is older than the grace period of the lease | follows from the proof |
//! | no job needs it | no active job claims it | – |
//! | it is on record | written in the same transaction | written in the same transaction |

use std::collections::BTreeSet;

use rusqlite::params;
use tenure_core::decide::{Ask, Bound};
use tenure_core::internal::loaded::{LineExtent, removes};
use tenure_core::leases::{Finding, Findings, Recovery};
use tenure_core::{Binding, LeaseState, Owner, Resource, Result, SessionId};

use super::claims::claimant;
use super::inner::Inner;
use super::list;
use super::load::DeadSessions;
use super::moment::Moment;
use super::row::{LeaseRow, number, parsed};
use super::sessions;
use crate::connection::{Durability, Rows, Sql};
use crate::session_file::{self, Proof};

/// The number of leases that one call looks at.
const PAGE: usize = 1000;
/// The number of sessions that one sweep proves.
const SWEEP: usize = 100;

impl Inner {
    pub(super) async fn recover(
        &self,
        actor: &Owner,
        recovery: Recovery,
        after: Option<&str>,
    ) -> Result<Findings> {
        let (mut findings, next) = self
            .read(|sql| {
                let moment = Moment::now()?;
                let (rows, next) = list::page(sql, after, PAGE, &moment)?;
                let mut findings = Vec::new();
                for row in rows {
                    findings.extend(self.finding(sql, row, &moment)?);
                }
                Ok((findings, next))
            })
            .await?;
        if recovery == Recovery::Real {
            for (finding, row) in findings.iter_mut().filter(|(found, _)| found.recoverable) {
                finding.recovered = self.recover_one(actor, row).await?;
            }
            if next.is_none() {
                self.sweep_lines().await?;
                self.sweep_sessions().await?;
            }
        }
        let leases = findings.into_iter().map(|(finding, _)| finding).collect();
        Ok(Findings::new(leases, next))
    }

    /// Explains a lease that looks stale. Returns `None` if it does not.
    fn finding(
        &self,
        sql: &Sql<'_>,
        mut row: LeaseRow,
        moment: &Moment,
    ) -> Result<Option<(Finding, LeaseRow)>> {
        let found = match &row.holder.binding {
            Bound::Lease { expires, .. } if *expires > moment.boot => return Ok(None),
            Bound::Lease { .. } => {
                let by = claimant(sql, &self.sessions, &row.lease.lease)?;
                match row.stale(by, moment.boot) {
                    Some(found) => found,
                    None => return Ok(None),
                }
            }
            Bound::Session => match self.sessions.prove(sql, &row.lease.session)? {
                Proof::Alive => return Ok(None),
                Proof::Dead => dead_session(&row),
                Proof::Unknown => {
                    row.lease.state = LeaseState::Unknown;
                    unknown_session(&row)
                }
            },
        };
        Ok(Some((found, row)))
    }

    /// Ends a stale lease and moves the line on. Returns true if the lease was there and still
    /// stale.
    async fn recover_one(&self, actor: &Owner, row: &LeaseRow) -> Result<bool> {
        let dead: DeadSessions = match row.lease.binding {
            Binding::Session => DeadSessions::from([row.lease.session.clone()]),
            Binding::Lease => DeadSessions::new(),
        };
        let resource = &row.lease.resource;
        self.write(Durability::PowerLoss, |step| {
            step.actor = Some(actor.clone());
            let decision = step.decide_and_write(resource, LineExtent::Front, &Ask::Look, &dead)?;
            Ok(removes(&decision.changes, &row.lease.lease))
        })
        .await
    }

    /// Removes dead waiters from the lines. Moving a line on passes over them, but no line moves
    /// while its resource is held.
    async fn sweep_lines(&self) -> Result<()> {
        let mut after = 0;
        loop {
            let waiters = self.read(|sql| waiters_after(sql, after)).await?;
            let Some((last, ..)) = waiters.last() else {
                return Ok(());
            };
            after = *last;
            let sessions = || waiters.iter().map(|(_, _, session)| session);
            let dead = self.read(|sql| self.sessions.dead(sql, sessions())).await?;
            let died = waiters.iter().filter(|(.., by)| dead.contains(by));
            let lines: BTreeSet<&Resource> = died.map(|(_, resource, _)| resource).collect();
            for resource in lines {
                self.write(Durability::Crash, |step| {
                    step.decide_and_write(resource, LineExtent::All, &Ask::Look, &dead)
                })
                .await?;
            }
        }
    }

    /// Deletes the rows and files of all sessions that are proved dead, and the files of sessions
    /// that never had a row.
    async fn sweep_sessions(&self) -> Result<()> {
        let mut after = String::new();
        loop {
            let sessions = self.read(|sql| sessions::page(sql, &after, SWEEP)).await?;
            let Some(last) = sessions.last() else {
                break;
            };
            after = last.to_string();
            self.sweep(&sessions).await?;
        }
        // Files without a row: their session died before it wrote one, or at its end.
        let unlocked = session_file::dead(&self.sessions.directory, SWEEP)?;
        for session in unlocked {
            let named = self
                .read(|sql| sessions::is_recorded(sql, &session))
                .await?;
            if !named {
                self.remove_files(&session);
            }
        }
        Ok(())
    }

    /// Deletes the rows and files of the dead among some sessions.
    async fn sweep(&self, sessions: &[SessionId]) -> Result<()> {
        let dead = self.read(|sql| self.sessions.dead(sql, sessions)).await?;
        if dead.is_empty() {
            return Ok(());
        }
        self.write(Durability::Crash, |step| {
            step.mark_dead(&dead);
            Ok(())
        })
        .await
    }

    /// Ends the leases of the dead among the first sessions, so that a listing shows none of a
    /// session that is over. A store that cannot be written is shown as it is.
    pub(super) async fn sweep_some(&self) {
        let swept = async {
            let rows = self
                .read(|sql| {
                    let sessions = sessions::page(sql, "", SWEEP)?;
                    self.sessions.dead(sql, &sessions)
                })
                .await?;
            if rows.is_empty() {
                return Ok(());
            }
            self.end_leases_of(&rows).await?;
            self.write_once(Durability::Crash, |step| {
                step.mark_dead(&rows);
                Ok(())
            })
        };
        let swept: Result<()> = swept.await;
        drop(swept);
    }
}

/// Returns a page of all waiters of all lines: the place, the resource and the session of each.
fn waiters_after(sql: &Sql<'_>, place: i64) -> Result<Vec<(i64, Resource, SessionId)>> {
    const SELECT: &str = "SELECT place, resource, session FROM waiters \
        WHERE place > ?1 ORDER BY place LIMIT ?2";
    let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
    sql.query(SELECT, params![place, limit], Rows::AtMost(PAGE), |row| {
        Ok((number(row, 0)?, parsed(row, 1)?, parsed(row, 2)?))
    })
}

fn dead_session(row: &LeaseRow) -> Finding {
    let reason = format!("its session {} is proved dead", row.lease.session);
    Finding::dead(&row.lease, reason)
}

fn unknown_session(row: &LeaseRow) -> Finding {
    let reason = format!(
        "the file of its session {} is gone or another: nothing proves it alive or dead, \
         and only break ends it",
        row.lease.session
    );
    Finding::kept(&row.lease, reason)
}
