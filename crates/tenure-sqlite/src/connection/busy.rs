//! Waiting for a busy database.
//!
//! SQLite's own waiting blocks the thread and sleeps for long. Transactions here last some
//! tens of microseconds, so the first tries follow each other closely; only then does the task
//! sleep, and leaves its thread to others. Each sleep is twice as long as the one before, up to a
//! limit: a try costs the kernel more the more processes have the database open, and thousands
//! that start at once and try every few milliseconds would leave no time for the one that
//! writes. There is no last try: the caller has a deadline, and drops the future.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::internal::jittered;
use tenure_core::{Error, Result};
use tenure_os::random;

use super::Durability;

/// Tries made one after the other, each after a short pause.
const QUICK_TRIES: u32 = 24;
/// The pause between quick tries: together less than a millisecond or so, with what the kernel
/// adds to each.
const QUICK_PAUSE: Duration = Duration::from_micros(20);
/// The first pause after those; each is twice the one before.
const LONG_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const LONG_PAUSE_MAX: Duration = Duration::from_millis(128);
/// The longest pause of a writer that waits for the disk. Other such writers are in its way, each
/// for about as long. With longer pauses, all of them would sleep while the database is free.
const DURABLE_PAUSE_MAX: Duration = Duration::from_millis(4);

/// Tries until the database is not busy.
pub(crate) async fn retry_busy<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pauses = BusyPauses::of(Durability::Crash);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) => pauses.wait().await,
            done => return done,
        }
    }
}

/// Tries until the database is not busy, where nothing can be awaited. Returns the busy error after
/// `limit`.
pub(crate) fn retry_busy_blocking<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let begun = Instant::now();
    let mut pauses = BusyPauses::of(Durability::Crash);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && begun.elapsed() < limit => {
                thread::sleep(pauses.next());
            }
            done => return done,
        }
    }
}

/// Another connection is in the way, for the moment.
#[derive(Debug, thiserror::Error)]
#[error("the database is busy")]
struct Busy;

/// Returns the error for a database that is busy for the moment.
pub(crate) fn busy(path: &Path) -> Error {
    let source = io::Error::new(io::ErrorKind::WouldBlock, Busy);
    Error::io("lock", path, source)
}

/// Returns true if it failed only because another connection was in the way.
pub(crate) fn is_busy(error: &Error) -> bool {
    let Error::Io { source, .. } = error else {
        return false;
    };
    source.get_ref().is_some_and(|inner| inner.is::<Busy>())
}

/// The pauses between the tries of one caller.
pub(crate) struct BusyPauses {
    tried: u32,
    longest: Duration,
}

impl BusyPauses {
    /// Returns the pauses of a caller whose commits are this durable.
    pub(crate) fn of(durability: Durability) -> Self {
        let longest = match durability {
            Durability::Crash => LONG_PAUSE_MAX,
            Durability::PowerLoss => DURABLE_PAUSE_MAX,
        };
        Self { tried: 0, longest }
    }

    /// Waits before the next try.
    pub(crate) async fn wait(&mut self) {
        let pause = self.next();
        if pause <= QUICK_PAUSE {
            thread::sleep(pause);
        } else {
            tokio::time::sleep(pause).await;
        }
    }

    fn next(&mut self) -> Duration {
        self.tried = self.tried.saturating_add(1);
        let pause = match self.tried.checked_sub(QUICK_TRIES + 1) {
            None => QUICK_PAUSE,
            Some(long) => (LONG_PAUSE * 2u32.pow(long.min(16))).min(self.longest),
        };
        jittered(pause, random::fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Error {
        super::busy(Path::new("/db"))
    }

    #[tokio::test]
    async fn a_busy_database_is_asked_until_it_is_free() {
        let mut left = 60;
        let answer = retry_busy(|| {
            left -= 1;
            if left > 0 { Err(busy()) } else { Ok(7) }
        });
        assert_eq!(answer.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn any_other_failure_is_told_at_once() {
        let mut tried = 0;
        let answer = retry_busy(|| {
            tried += 1;
            Err::<(), _>(Error::io(
                "open",
                "/db",
                io::Error::from(io::ErrorKind::WouldBlock),
            ))
        });
        assert!(answer.await.is_err());
        assert_eq!(tried, 1);
    }

    #[test]
    fn a_caller_that_cannot_wait_gives_up_in_time() {
        let begun = Instant::now();
        let limit = Duration::from_millis(30);
        let answer = retry_busy_blocking(limit, || Err::<(), _>(busy()));
        assert!(is_busy(&answer.unwrap_err()));
        assert!(begun.elapsed() >= limit && begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn pauses_are_spread_between_half_and_all() {
        let whole = Duration::from_millis(4);
        for _ in 0..1000 {
            let pause = jittered(whole, random::fraction());
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?}");
        }
    }
}
