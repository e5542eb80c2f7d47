//! Takes the locks, tells people while it waits, and gives up when interrupted.

use std::pin::pin;

use tenure::{Error, Guard, LockSet, Options, Result, Session};

use super::signals::Signals;
use super::waiting;

/// Takes all locks of the set, or none.
///
/// A signal while waiting drops the wait, which leaves neither lock nor waiter behind.
pub async fn acquire(
    session: &Session,
    set: &LockSet,
    options: &Options,
    signals: &mut Signals,
) -> Result<Vec<Guard>> {
    let Some((first, _)) = set.iter().next() else {
        return Ok(Vec::new());
    };
    let limit = options.wait.unwrap_or(session.keeper().settings().wait);
    let acquiring = pin!(session.acquire_many(set, options));
    let telling = pin!(waiting::tell(session, set, limit));
    // In this order, so that a lock that is free costs neither timer nor listing.
    tokio::select! {
        biased;
        taken = acquiring => taken,
        _ = signals.interruption() => Err(Error::Interrupted { resource: first.clone() }),
        never = telling => match never {},
    }
}
