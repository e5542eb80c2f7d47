//! The time of one step: the database's clock, read once, after the row of the resource was locked.
//!
//! Decisions are made in milliseconds, and only whole ones are written. A time that is read is
//! therefore exactly the one decided upon, and no lease lasts longer than its holder was told.
//! Tokens are drawn from the microseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::decide::Millis;
use tenure_core::{Result, Timestamp};
use tokio_postgres::Row;

use super::row::column;

/// The time by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) micros: u64,
}

impl Moment {
    /// Returns the moment that a statement read as `clock_timestamp()`.
    pub(super) fn read(row: &Row, index: usize) -> Result<Self> {
        column::<SystemTime>(row, index).map(Self::from)
    }

    /// Returns the time on the clock that decides.
    pub(super) fn now(&self) -> Millis {
        self.micros / 1000
    }

    /// Returns the time for people.
    pub(super) fn wall(&self) -> Timestamp {
        shown(self.now())
    }

    /// Returns the time as a column holds it.
    pub(super) fn at(&self) -> SystemTime {
        system_time(self.now())
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            micros: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// Returns a time on the clock that decides, as a column holds it. `None` stands for never.
pub(super) fn written(at: Millis) -> Option<SystemTime> {
    // No timestamp of the database reaches beyond this; and no caller waits so long.
    const LAST: Millis = 253_402_128_000_000;
    (at <= LAST).then(|| system_time(at))
}

/// Returns a time on the clock that decides, for people.
pub(super) fn shown(at: Millis) -> Timestamp {
    Timestamp::from_millis(i64::try_from(at).unwrap_or(i64::MAX))
}

fn system_time(at: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_whole_milliseconds_and_is_read_as_it_was_decided() {
        let moment = Moment::from(UNIX_EPOCH + Duration::from_micros(1_763_236_800_123_987));
        assert_eq!(moment.now(), 1_763_236_800_123);
        assert_eq!(moment.micros, 1_763_236_800_123_987);
        assert_eq!(Moment::from(moment.at()).now(), moment.now());
        assert_eq!(Moment::from(moment.at()).micros % 1000, 0);
    }

    #[test]
    fn never_is_no_time() {
        assert_eq!(written(Millis::MAX), None);
        assert!(written(1).is_some());
    }
}
