//! One check of one lock: whether it is due, the question, and what the answer means.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::Store;
use tenure_core::decide::Millis;
use tenure_files::clock;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::rhythm::Rhythm;
use crate::guard::{Hold, Phase};
use crate::poison::lock;

/// A check that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Check {
    limit: Duration,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Every now and then.
    Regular,
    /// After a sleep: it is lost if this fails.
    LastTry,
}

/// The regular check, if its time has come and none is under way. One that has been under
/// way for too long makes the lock unknown before it fails.
pub(super) fn due(hold: &Hold, rhythm: &Rhythm, now: Millis) -> Option<Check> {
    let mut checks = lock(&hold.checks);
    let late = match (rhythm.every, checks.begun) {
        (Some(every), Some(begun)) => now.saturating_sub(begun) >= every,
        _ => true,
    };
    if checks.under_way || checks.last_try {
        drop(checks);
        if late && rhythm.every.is_some() {
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
        limit: rhythm.limit,
        kind: Kind::Regular,
    })
}

/// The check after a sleep. Another that is under way was asked before it, and proves nothing.
pub(super) fn last_try(hold: &Hold, rhythm: &Rhythm, now: Millis) -> Option<Check> {
    let mut checks = lock(&hold.checks);
    if std::mem::replace(&mut checks.last_try, true) {
        return None;
    }
    checks.begun = Some(now);
    drop(checks);
    // What is not over yet is not waited for longer than it lasts.
    let left = hold.expires_in().filter(|left| !left.is_zero());
    Some(Check {
        limit: left.map_or(rhythm.last_try, |left| left.min(rhythm.last_try)),
        kind: Kind::LastTry,
    })
}

/// Asks, and notes the answer. Nothing is kept alive while it is waited for.
pub(super) async fn carry_out(
    check: Check,
    store: Arc<dyn Store>,
    hold: Weak<Hold>,
    places: Arc<Semaphore>,
) {
    // The one that decides does not wait for others. The semaphore is never closed.
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
