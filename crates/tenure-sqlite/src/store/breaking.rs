//! Breaking: a person takes a lease away.
//!
//! The lease becomes revoking: no other request is granted until its holder confirms its stop by
//! releasing it, or ten seconds have passed. A live holder learns of it when it next renews its
//! lease, within about a second.
//!
//! # A command that goes on without its process
//!
//! If `run` was killed, no process is left to stop its command. The command keeps the lock by the
//! file of the session, which it inherited. The file proves which processes are meant:
//!
//! 1. The lease is revoking, on disk.
//! 2. The processes that hold the lock of the session's file are looked for. If the process of the
//!    lease is one of them, it learns of the break by itself, and nothing is done.
//! 3. Each of them gets SIGTERM, and SIGCONT in case it is stopped.
//! 4. A process that is still there after five seconds gets SIGKILL.
//! 5. The next in line is granted, as the session is dead.
//!
//! A crash of the breaker before 4 leaves the lease revoking: others are granted after ten seconds,
//! and what is left of the command goes on. If a process ends meanwhile and its number is used
//! again, its pidfd tells that. A process that the command starts meanwhile is found in 4.
//!
//! # Limitations
//!
//! Processes of other users and of other PID namespaces are not seen, and go on.

use std::time::Duration;

use rusqlite::params;
use rustix::process::Signal;
use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Outcome};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::{Binding, Lease, LeaseId, Owner, Result};
use tokio::time::{Instant, sleep};

use super::inner::Inner;
use super::load::load_lease;
use super::step::Step;
use crate::connection::Durability;

/// The time that a command has to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// The time within which a process ends after SIGKILL.
const KILL_MAX: Duration = Duration::from_secs(1);
/// The interval between two looks for its end.
const LOOK: Duration = Duration::from_millis(50);

impl Inner {
    pub(super) async fn break_lease(
        &self,
        lease: &LeaseId,
        actor: &Owner,
        reason: &str,
    ) -> Result<Lease> {
        let Lease {
            resource, session, ..
        } = self.row_of(lease).await?.lease;
        let dead = self.read(|sql| self.sessions.dead(sql, [&session])).await?;
        let broken = self.write(Durability::PowerLoss, |step| {
            step.actor = Some(actor.clone());
            let ask = Ask::Break(lease.clone());
            let decision = step.decide_and_write(&resource, LineExtent::Front, &ask, &dead)?;
            if decision.outcome != Outcome::Done {
                return Ok(None);
            }
            note(step, lease, actor, reason)
        });
        let Some(mut broken) = broken.await? else {
            return Err(self.gone(lease).await);
        };
        if broken.binding == Binding::Session {
            self.end_survivors(&mut broken).await;
        }
        Ok(broken)
    }

    /// Ends the command of a lease whose process has ended, and notes its process id.
    async fn end_survivors(&self, lease: &mut Lease) {
        let survivors = self.sessions.survivors(lease);
        let Some(first) = survivors.first() else {
            return;
        };
        lease.command_pid = Some(*first);
        for signal in [Signal::TERM, Signal::CONT] {
            self.sessions.signal(&survivors, lease, signal);
        }
        if !self.have_ended(lease, GRACE).await {
            let left = self.sessions.survivors(lease);
            self.sessions.signal(&left, lease, Signal::KILL);
            self.have_ended(lease, KILL_MAX).await;
        }
        // If that cannot be done now, the next step on the resource does it.
        let dead = self.read(|sql| self.sessions.dead(sql, [&lease.session]));
        if let Ok(dead) = dead.await {
            drop(self.grant_next_now(&lease.resource, &dead));
        }
    }

    /// Waits until the processes that survived have ended. Returns false if some have not.
    async fn have_ended(&self, lease: &Lease, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        while !self.sessions.survivors(lease).is_empty() {
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }
}

/// Writes the actor and the reason of a break: into the audit, and for the holder to read.
fn note(
    step: &mut Step<'_>,
    lease: &LeaseId,
    actor: &Owner,
    reason: &str,
) -> Result<Option<Lease>> {
    const UPDATE: &str = "UPDATE dal_locks SET note = coalesce(note, ?2) WHERE lock_id = ?1";
    let Some(row) = load_lease(step.sql, lease, &step.moment)? else {
        return Ok(None);
    };
    let note = format!("broken by {actor}: {reason}");
    step.sql.execute(UPDATE, params![lease.as_str(), note])?;
    step.audit(Action::Break, &row.lease, Some(reason), false)?;
    Ok(Some(row.lease))
}
