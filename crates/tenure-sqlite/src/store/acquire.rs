//! A new lease.
//!
//! # The steps
//!
//! 1. The session's file is created and locked.
//! 2. A step: the order of the request is compared with the one that is written down (`order`). The
//!    lease is granted at once if the resource is neither held nor awaited. Otherwise the resource
//!    is loaded and decided upon.
//! 3. A request that would have to wait proves outside the transaction which sessions in the way
//!    are dead, and listens for its wake-up, so that none is missed. Then it repeats the step.
//! 4. The request is queued, and waits (`wait`). If it loses its place in line, it begins again.
//! 5. After each commit the database is looked at again: a grant in a file that is no longer
//!    at its path is void, and the caller does not get it (`inner`).

use rusqlite::params;
use tenure_core::decide::{Ask, Outcome};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{Error, Lease, Request, Result, SessionId, Token};

use super::inner::Inner;
use super::load::{DeadSessions, in_the_way, load_lease};
use super::order;
use super::row::number;
use super::step::Step;
use crate::connection::Durability;

/// The outcome of one step of a request.
pub(super) enum StepOutcome {
    Granted(Box<Lease>),
    Queued,
    Busy,
    /// The request would have to wait, and these sessions are not yet proved alive or dead.
    Unproved(Vec<SessionId>),
}

impl Inner {
    pub(super) async fn acquire(&self, request: &Request) -> Result<Option<Lease>> {
        self.pending_cleanup.cancel(&request.lease);
        // The file is created before the step, so that no other writer has to wait for that.
        self.sessions.file(&request.asker.session)?;
        let awaited = Awaited::Lease(request.clone());
        self.until_answered(&awaited, Durability::Crash).await
    }
}

/// Asks in a step. `proved` has the dead among the sessions in the way, once they were proved.
pub(super) fn ask_in_step(
    step: &mut Step<'_>,
    awaited: &Awaited,
    proved: Option<&DeadSessions>,
) -> Result<StepOutcome> {
    let (id, resource) = (awaited.lease(), awaited.resource());
    let line = match awaited {
        Awaited::Lease(request) => {
            if let Some(lease) = acquire_uncontended(step, request)? {
                return Ok(StepOutcome::Granted(Box::new(lease)));
            }
            LineExtent::FrontAnd(id)
        }
        Awaited::Upgrade(..) => LineExtent::Front,
    };
    step.actor = Some(awaited.asker().actor().clone());
    let ask = Ask::of(awaited, awaited.wait());
    let nobody = DeadSessions::new();
    let (loaded, decision) = step.decide(resource, line, &ask, proved.unwrap_or(&nobody))?;
    let must_wait = matches!(decision.outcome, Outcome::Busy | Outcome::Queued);
    if must_wait && proved.is_none() {
        return Ok(StepOutcome::Unproved(in_the_way(&loaded)));
    }
    if let Outcome::Refused(refusal) = decision.outcome {
        let is_known = loaded.waiter(id).is_some() || loaded.lease(id).is_some();
        if is_known && matches!(awaited, Awaited::Lease(_)) {
            // The request was made before, in a database that moved away with its log, or came
            // back. It still has its place in line or an offer; only its session's file is new.
            if proved.is_none() {
                // The request has to listen first.
                return Ok(StepOutcome::Unproved(Vec::new()));
            }
            step.record(awaited.asker())?;
            return Ok(StepOutcome::Queued);
        }
        let context = step.store.context(resource, awaited.mode());
        return Err(loaded.state().refused(awaited, context, refusal));
    }
    let granted = step.write(resource, &loaded, &decision.changes, Some(awaited))?;
    match decision.outcome {
        Outcome::Granted => {
            let upgraded = || load_lease(step.sql, id, &step.moment);
            let lease = match granted {
                Some(lease) => Some(lease),
                None => upgraded()?.map(|row| row.lease),
            };
            let lease = lease.ok_or_else(|| Error::not_held(id))?;
            Ok(StepOutcome::Granted(Box::new(lease)))
        }
        Outcome::Queued => Ok(StepOutcome::Queued),
        Outcome::Busy => Ok(StepOutcome::Busy),
        other => Err(Error::Internal(format!("a request ended with {other:?}"))),
    }
}

/// Grants the first request for a resource, whatever its mode and capacity. Returns `None` if the
/// resource is held or awaited.
fn acquire_uncontended(step: &mut Step<'_>, request: &Request) -> Result<Option<Lease>> {
    const TAKEN: &str = "SELECT EXISTS (SELECT 1 FROM dal_locks WHERE resource = ?1) \
        OR EXISTS (SELECT 1 FROM waiters WHERE resource = ?1), \
        (SELECT token FROM resources WHERE resource = ?1), \
        (SELECT value FROM settings WHERE name = 'order')";
    let key = params![request.resource.as_str()];
    let found = step.sql.one(TAKEN, key, |row| {
        let taken = (number::<bool>(row, 0)?, number::<Option<i64>>(row, 1)?);
        Ok((taken, number::<Option<String>>(row, 2)?))
    })?;
    let ((is_taken, current), written) = found.unwrap_or_default();
    if let Some(order) = step.store.order()
        && !order.is_written(written.as_deref())
    {
        order::adopt(step, order, written.as_deref())?;
    }
    if is_taken {
        return Ok(None);
    }
    let token = |current: i64| Token::new(current.cast_unsigned()).unwrap_or(Token::NONE);
    step.grant(request, current.map(token)).map(Some)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Poll;

    use tenure_core::decide::Wait;
    use tenure_core::{Asker, LeaseId};

    use super::super::cleanup::tests::request;
    use super::*;
    use crate::connection::tests::WRITES;

    #[tokio::test]
    async fn a_waiter_is_in_line_after_two_transactions_and_a_free_lock_is_had_with_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = Inner::open(
            &directory.path().join("tenure.db"),
            crate::OpenOptions::trusting(true),
        )
        .unwrap();
        let first = request();
        let before = WRITES.get();
        store.acquire(&first).await.unwrap().unwrap();
        assert_eq!(WRITES.get() - before, 1);
        let second = Request {
            lease: LeaseId::parse("l2").unwrap(),
            asker: Arc::new(Asker {
                session: SessionId::parse("s2").unwrap(),
                ..Asker::clone(&first.asker)
            }),
            wait: Wait::Until(u64::MAX),
            ..first
        };
        let before = WRITES.get();
        let mut asking = pin!(store.acquire(&second));
        let waits = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context).is_pending()));
        assert!(waits.await);
        assert_eq!(WRITES.get() - before, 2);
        let position = store.position(&second.resource, &second.lease);
        assert_eq!(position.await.unwrap(), Some(1));
    }
}
