//! Acquires the lock, and waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Mode, Result, RetryPolicy};
use tenure_lockfile::log;
use tenure_os::cancel::{Cancel, Ended};
use tenure_os::{clock, random};

use crate::node_lock::directory::{self, Moved};
use crate::node_lock::hold::Hold;
use crate::node_lock::names::Names;
use crate::node_lock::release;
use crate::node_lock::stale::StaleCheck;
use crate::node_lock::take_over::{RemovalResult, take_over};

/// The time for which a lock that was taken over must stay ours before it counts as held: a Node
/// process that saw the stale lock removes the directory at its path a few system calls later.
const UNDISTURBED: Duration = Duration::from_millis(100);

/// The pauses between looks: 50 ms, twice as long each time, 500 ms at most.
const PAUSES: RetryPolicy = RetryPolicy {
    attempts: u32::MAX,
    first: Duration::from_millis(50),
    longest: Duration::from_millis(500),
    factor: 2.0,
};

/// Waits for the lock until the deadline, or until cancelled.
pub(super) fn acquire(names: Names, deadline: Instant, cancel: &Cancel) -> Result<Hold> {
    let names = Arc::new(names);
    let started = Instant::now();
    let mut watch = StaleCheck::default();
    let mut attempts = 0;
    loop {
        attempts += 1;
        if let Some(hold) = attempt(&names, &mut watch, cancel)? {
            return Ok(hold);
        }
        if attempts == 1 {
            log::waiting(names.lock(), Mode::Write);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            log::gave_up(names.lock(), Mode::Write, started);
            let limit = deadline.saturating_duration_since(started);
            return Err(names.timeout(started.elapsed(), limit, attempts));
        }
        let pause = pause(attempts, random::fraction()).min(left);
        if cancel.sleep(pause) == Ended::Cancelled {
            log::gave_up(names.lock(), Mode::Write, started);
            return Err(names.interrupted());
        }
    }
}

/// Takes the lock if it is free or stale.
fn attempt(names: &Arc<Names>, watch: &mut StaleCheck, cancel: &Cancel) -> Result<Option<Hold>> {
    let Some(seen) = directory::look(names.lock())? else {
        return place(names);
    };
    if !watch.is_stale(seen) {
        return Ok(None);
    }
    match take_over(names, seen)? {
        RemovalResult::ByUs | RemovalResult::ByAnother => {}
        RemovalResult::Not => return Ok(None),
    }
    match place(names)? {
        Some(hold) => stays_ours(hold, cancel),
        None => Ok(None),
    }
}

/// Puts a lock of ours in place. Returns `None` if another process is faster.
fn place(names: &Arc<Names>) -> Result<Option<Hold>> {
    let new = names.unplaced();
    let boot_ms = clock::boot_now();
    let (opened, seen) = directory::make(&new)?;
    match directory::rename(&new, names.lock()) {
        Ok(Moved::Done) => Ok(Some(Hold::new(names, opened, seen, boot_ms))),
        // `Gone` means that another process removed it as a leftover. The next attempt makes
        // another.
        Ok(Moved::Taken | Moved::Gone) => {
            directory::remove(&new)?;
            Ok(None)
        }
        Err(error) => {
            // The first error is the one to report.
            let _ = directory::remove(&new);
            Err(error)
        }
    }
}

/// Waits until no process that saw the stale lock can still be about to remove ours.
fn stays_ours(hold: Hold, cancel: &Cancel) -> Result<Option<Hold>> {
    let verified = match cancel.sleep(UNDISTURBED) {
        Ended::Deadline => hold.verify(),
        Ended::Cancelled => Err(hold.names().interrupted()),
    };
    match verified {
        Ok(()) => Ok(Some(hold)),
        Err(error) => {
            // The lock is removed only if it is still ours.
            let _ = release::release(&hold);
            match error {
                Error::Lost { .. } => Ok(None),
                error => Err(error),
            }
        }
    }
}

/// Returns the pause after `attempts`, shortened by up to a quarter, so that processes that wait
/// together do not look together.
fn pause(attempts: u32, random: f64) -> Duration {
    let pause = PAUSES.pause(attempts, 0.5 + random / 2.0);
    pause.unwrap_or(PAUSES.longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_50_to_500_ms_and_are_shortened_by_a_quarter_at_most() {
        let millis = |random| -> Vec<u128> {
            let pauses = (1..=7).map(|attempts| pause(attempts, random));
            pauses.map(|pause| pause.as_millis()).collect()
        };
        assert_eq!(millis(1.0), [50, 100, 200, 400, 500, 500, 500]);
        assert_eq!(millis(0.0), [37, 75, 150, 300, 375, 375, 375]);
    }
}
