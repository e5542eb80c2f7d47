//! Wall-clock times for people: RFC 3339, UTC, milliseconds, fixed width.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, UTC. It is for people: no decision depends on it while a machine is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub struct Timestamp(i64);

/// The text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad time {text:?}: {problem}; a time is like 2026-01-31T12:00:00Z")]
pub struct TimestampError {
    text: String,
    problem: String,
}

/// 9999-12-30T00:00:00Z: the width stays fixed, and every offset from UTC can be shown.
const MILLIS_MAX: i64 = 253_402_128_000_000;

impl Timestamp {
    /// Makes a time from milliseconds since 1970, clamped to what four-digit years can show.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(0, MILLIS_MAX))
    }

    /// Returns the milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time from `earlier` to this, or zero if this is not later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Returns the time that is `later` after this one.
    pub fn after(self, later: Duration) -> Timestamp {
        let millis = i64::try_from(later.as_millis()).unwrap_or(MILLIS_MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(i64::try_from(since.as_millis()).unwrap_or(MILLIS_MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0)
            .expect("the range is checked when the value is made");
        write!(f, "{time:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let time = text.parse::<jiff::Timestamp>();
        let time = time.map_err(|problem| TimestampError {
            text: text.chars().take(80).collect(),
            problem: problem.to_string(),
        })?;
        Ok(Self::from_millis(time.as_millisecond()))
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;
    fn try_from(text: String) -> Result<Self, TimestampError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_fixed_width_and_round_trip() {
        for millis in [0, 1, 1_763_236_800_000, MILLIS_MAX] {
            let time = Timestamp::from_millis(millis);
            let text = time.to_string();
            assert_eq!(text.len(), "2026-01-31T12:00:00.000Z".len(), "{text}");
            assert_eq!(text.parse(), Ok(time));
        }
    }

    #[test]
    fn a_time_before_another_is_no_time_after_it() {
        let (early, late) = (Timestamp::from_millis(5), Timestamp::from_millis(9));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late.since(early), Duration::from_millis(4));
    }
}
