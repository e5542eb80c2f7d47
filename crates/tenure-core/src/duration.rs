//! Durations on the command line, in files and in messages: `500ms`, `30s`, `5m`, `1h`.

use std::time::Duration;

/// The longest duration that [`parse`] accepts, and the longest wait: one year.
pub const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "bad duration {0:?}; a duration is a number and ms, s, m or h, such as 500ms, 30s, 5m or 1h, \
     and at most 8760h"
)]
pub struct DurationError(String);

/// Parses a duration. The unit is required.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let fail = || DurationError(text.chars().take(80).collect());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| fail())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(fail()),
    };
    let duration = number.checked_mul(unit_ms).map(Duration::from_millis);
    duration.filter(|d| *d <= DURATION_MAX).ok_or_else(fail)
}

/// Parses a duration from an environment variable, where a bare number means seconds.
pub fn parse_or_seconds(text: &str) -> Result<Duration, DurationError> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse(&format!("{text}s"));
    }
    parse(text)
}

/// Refuses a wait that is as good as endless: every wait has an end.
pub fn check_wait(wait: Duration) -> crate::Result<()> {
    if wait <= DURATION_MAX {
        return Ok(());
    }
    let problem = "there is no wait without an end: the longest is 8760h (a year)";
    Err(crate::Error::BadInput(problem.into()))
}

/// Formats a duration for people, in at most two units: `850ms`, `4.2s`, `3m 05s`, `2h 10m`, `3d
/// 4h`.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{}.{}s", seconds, duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_units_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let huge = "99999999999999999999s";
        for text in [
            "", "5", "s", "-1s", "1.5s", "1 s", "1d", "1s ", huge, "9000h",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_bare_number_is_seconds_only_where_asked_for() {
        assert_eq!(parse_or_seconds("7"), Ok(Duration::from_secs(7)));
        assert_eq!(parse_or_seconds("7ms"), Ok(Duration::from_millis(7)));
        assert!(parse_or_seconds("").is_err());
    }

    #[test]
    fn people_see_two_units_at_most() {
        let shown = |ms| show(Duration::from_millis(ms));
        assert_eq!(shown(850), "850ms");
        assert_eq!(shown(4250), "4.2s");
        assert_eq!(shown(185_000), "3m 05s");
        assert_eq!(shown(7_800_000), "2h 10m");
        assert_eq!(shown(273_600_000), "3d 4h");
    }
}
