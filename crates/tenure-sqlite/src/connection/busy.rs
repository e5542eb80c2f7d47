//! The one loop that waits for a busy database.
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

use tenure_core::{Error, Result, jittered};
use tenure_os::random;

/// Tries made one after the other, each after a short pause.
const QUICK_TRIES: u32 = 24;
/// The pause between quick tries: together less than a millisecond or so, with what the kernel
/// adds to each.
const QUICK_PAUSE: Duration = Duration::from_micros(20);
/// The first pause after those; each is twice the one before.
const LONG_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const LONG_PAUSE_MAX: Duration = Duration::from_millis(128);
/// The longest pause of a writer that waits for the disk: others that do the same are in its way, each for about as long, and all of
/// them would sleep while the database is free.
const DURABLE_PAUSE_MAX: Duration = Duration::from_millis(4);

/// Tries until the database is not busy.
pub(crate) async fn retry_busy<T>(attempt: impl FnMut() -> Result<T>) -> Result<T> {
    retry(LONG_PAUSE_MAX, attempt).await
}

/// Does the same for a step that is on disk before it is acknowledged.
pub(crate) async fn retry_busy_durably<T>(attempt: impl FnMut() -> Result<T>) -> Result<T> {
    retry(DURABLE_PAUSE_MAX, attempt).await
}

async fn retry<T>(longest: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pauses = BusyPauses::default();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) => {}
            done => return done,
        }
        match pauses.next() {
            Pause::Quick(pause) => thread::sleep(pause),
            Pause::Long(pause) => tokio::time::sleep(pause.min(longest)).await,
        }
    }
}

/// Tries until the database is not busy, where nothing can be awaited. Returns the busy error after `limit`.
pub(crate) fn retry_busy_blocking<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let begun = Instant::now();
    let mut pauses = BusyPauses::default();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && begun.elapsed() < limit => {}
            done => return done,
        }
        let (Pause::Quick(pause) | Pause::Long(pause)) = pauses.next();
        thread::sleep(pause);
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

enum Pause {
    Quick(Duration),
    Long(Duration),
}

#[derive(Default)]
struct BusyPauses {
    tried: u32,
}

impl BusyPauses {
    fn next(&mut self) -> Pause {
        self.tried = self.tried.saturating_add(1);
        let Some(long) = self.tried.checked_sub(QUICK_TRIES + 1) else {
            return Pause::Quick(jittered(QUICK_PAUSE, random::fraction()));
        };
        let pause = LONG_PAUSE * 2u32.saturating_pow(long.min(16));
        Pause::Long(jittered(pause.min(LONG_PAUSE_MAX), random::fraction()))
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
