//! The lock log: `TENURE_LOG=lock=debug` tells on standard error who waits for a lock, gets it and
//! gives it back, with times. Without the variable nothing is set up.

use std::env;
use std::fmt;

use tenure::{Error, clock};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output::Told;
use crate::report::Failure;

const VARIABLE: &str = "TENURE_LOG";

/// Begins to tell, if that is wanted.
pub fn start() -> Result<(), Failure> {
    let Some(wanted) = env::var_os(VARIABLE).filter(|wanted| !wanted.is_empty()) else {
        return Ok(());
    };
    let filter = wanted.to_str().and_then(parse).ok_or_else(|| {
        let shown: String = wanted.to_string_lossy().chars().take(200).collect();
        Error::Configuration {
            problem: format!("bad {VARIABLE} {shown:?}"),
            remedy: format!("{VARIABLE} is a level, or TARGET=LEVEL, such as lock=debug"),
        }
    })?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Told)
        .with_timer(Now)
        .with_ansi(false);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    Ok(())
}

/// Words with commas between: `LEVEL`, `TARGET` (all of it) or `TARGET=LEVEL`.
fn parse(wanted: &str) -> Option<Targets> {
    let words: Vec<&str> = wanted.split(',').map(str::trim).collect();
    let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
    let is_known = |word: &&str| match word.split_once('=') {
        Some((target, level)) => {
            is_word(target) && is_word(level) && level.parse::<LevelFilter>().is_ok()
        }
        None => is_word(word),
    };
    let known = words.iter().all(is_known);
    known.then(|| words.join(",").parse().ok()).flatten()
}

/// The time as everything here has it: UTC, RFC 3339.
struct Now;

impl FormatTime for Now {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", clock::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_a_level_or_a_target_with_one() {
        use tracing::Level;
        for text in ["lock=debug", "debug", "lock", "info, lock=debug"] {
            let filter = parse(text).unwrap_or_else(|| panic!("{text}"));
            assert!(filter.would_enable("lock", &Level::DEBUG), "{text}");
        }
        assert!(
            !parse("lock=info")
                .unwrap()
                .would_enable("lock", &Level::DEBUG)
        );
        for text in [
            "lock=loud",
            "lock=",
            "=debug",
            "lock debug",
            ",",
            "lock=debug=x",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
