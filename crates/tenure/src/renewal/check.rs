//! One check of one lock: its due time, the request, and the meaning of the answer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::Store;
use tenure_core::decide::Millis;
use tenure_core::internal::lock;
use tenure_os::clock;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::schedule::CheckSchedule;
use crate::guard::{Hold, Phase};

/// A check that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Check {
    limit: Duration,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// At regular intervals.
    Regular,
    /// After a sleep: the lock is lost if this fails.
    LastTry,
}

/// Returns the regular check if it is due and none is under way. A check that has been under way
/// for too long makes the lock unknown before it fails.
pub(super) fn due(hold: &Hold, schedule: &CheckSchedule, now: Millis) -> Option<Check> {
    let mut checks = lock(&hold.checks);
    let late = match (schedule.every, checks.begun) {
        (Some(every), Some(begun)) => now.saturating_sub(begun) >= every,
        _ => true,
    };
    if checks.under_way || checks.last_try {
        drop(checks);
        if late && schedule.every.is_some() {
            hold.note_silence();
        }
        return None;
    }
    if !late {
        return None;
    }
    checks.begun = Some(now);
    checks.under_way = true;
    Some(Check {
        limit: schedule.limit,
        kind: Kind::Regular,
    })
}

/// Returns the check after a sleep. Another check under way was sent before the sleep, and proves
/// nothing.
pub(super) fn last_try(hold: &Hold, schedule: &CheckSchedule, now: Millis) -> Option<Check> {
    let mut checks = lock(&hold.checks);
    if std::mem::replace(&mut checks.last_try, true) {
        return None;
    }
    checks.begun = Some(now);
    drop(checks);
    // The check of a lease that is not over takes no longer than the lease lasts.
    let left = hold.expires_in().filter(|left| !left.is_zero());
    Some(Check {
        limit: left.map_or(schedule.last_try, |left| left.min(schedule.last_try)),
        kind: Kind::LastTry,
    })
}

/// Makes the check, and notes the answer. The wait for the answer keeps nothing alive.
pub(super) async fn make(
    check: Check,
    store: Arc<dyn Store>,
    hold: Weak<Hold>,
    places: Arc<Semaphore>,
) {
    // The last try does not wait for other checks. The semaphore is never closed.
    let _place = match check.kind {
        Kind::Regular => places.acquire().await.ok(),
        Kind::LastTry => None,
    };
    let Some(id) = hold.upgrade().map(|hold| hold.id.clone()) else {
        return;
    };
    let asked = clock::boot_now();
    let answer = timeout(check.limit, store.renew(&id)).await;
    let Some(hold) = hold.upgrade() else { return };
    let answer = answer.unwrap_or_else(|_| Err(hold.silence()));
    hold.note(asked, &answer);
    let mut checks = lock(&hold.checks);
    match check.kind {
        Kind::Regular => checks.under_way = false,
        Kind::LastTry => {
            checks.last_try = false;
            drop(checks);
            if hold.phase(clock::boot_now()) == Phase::Over {
                hold.note_over();
            }
        }
    }
}
