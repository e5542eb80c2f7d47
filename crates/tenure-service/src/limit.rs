//! The time a call waits in all: for its store, its slot and its locks.

use std::time::Duration;

use tenure::{Error, Settings};
use tokio::time::Instant;

/// The time limit for everything a call waits for.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    began: Instant,
    whole: Duration,
    /// The longest wait for a server.
    opening: Duration,
}

impl Limit {
    /// Returns the limit asked for, else that of the settings. It begins to run now.
    pub fn chosen(asked: Option<Duration>, setting: Duration) -> Self {
        Self {
            began: Instant::now(),
            whole: asked.unwrap_or(setting),
            opening: asked.unwrap_or(Settings::default().open),
        }
    }

    /// Returns the limit of a call that waits for nothing.
    pub fn none() -> Self {
        Self::chosen(Some(Duration::ZERO), Duration::ZERO)
    }

    /// Returns the whole limit, from its beginning.
    pub fn whole(&self) -> Duration {
        self.whole
    }

    /// Returns the time that is left. It is never zero for a call that may wait at all, because
    /// "busy" and "timed out" are different errors.
    pub fn left(&self) -> Duration {
        let least = self.whole.min(Duration::from_millis(1));
        self.whole.saturating_sub(self.began.elapsed()).max(least)
    }

    /// Returns the longest wait for a server that is away. Unless the caller asks for a wait, it is
    /// shorter than that for a lock: the server may not exist at all.
    pub fn for_opening(&self) -> Duration {
        self.left().min(self.opening)
    }

    /// Returns an error with the whole limit and the whole wait in it.
    pub fn whole_in(&self, mut error: Error) -> Error {
        if let Error::Timeout { waited, limit, .. } = &mut error {
            *waited = self.began.elapsed();
            *limit = self.whole;
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Duration = Duration::from_secs(5);

    #[test]
    fn the_caller_beats_the_setting() {
        let minute = Duration::from_secs(60);
        for (asked, whole) in [
            (Some(Duration::ZERO), Duration::ZERO),
            (Some(minute), minute),
            (None, SETTING),
        ] {
            assert_eq!(Limit::chosen(asked, SETTING).whole(), whole);
        }
    }

    #[test]
    fn a_limit_that_ran_out_still_waits_unless_nothing_was_to_be_waited() {
        assert_eq!(Limit::none().left(), Duration::ZERO);
        let limit = |wait| Limit::chosen(Some(wait), SETTING);
        let short = limit(Duration::from_nanos(1));
        assert_eq!(short.left(), Duration::from_nanos(1));
        let hour = Duration::from_secs(3600);
        let long = limit(hour).left();
        assert!(long > hour / 2 && long <= hour);
    }
}
