//! The lock log: with `TENURE_LOG=lock=debug`, standard error tells who waits for a lock, gets it
//! and gives it back, with times. Without the variable nothing is set up.

use std::env;
use std::fmt;

use tenure::{Error, clock};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output::StderrWriter;
use crate::report::Failure;

const VARIABLE: &str = "TENURE_LOG";

/// Starts the log if the variable is set.
pub fn start() -> Result<(), Failure> {
    let Some(wanted) = env::var_os(VARIABLE).filter(|wanted| !wanted.is_empty()) else {
        return Ok(());
    };
    let filter = wanted
        .to_str()
        .and_then(|text| text.parse::<Targets>().ok());
    let filter = filter.ok_or_else(|| {
        let shown: String = wanted.to_string_lossy().chars().take(200).collect();
        Error::configuration(
            format!("bad {VARIABLE} {shown:?}"),
            format!("{VARIABLE} is a level, or TARGET=LEVEL, such as lock=debug"),
        )
    })?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| StderrWriter)
        .with_timer(Now)
        .with_ansi(false);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    Ok(())
}

/// The format of times in the log: UTC, RFC 3339.
struct Now;

impl FormatTime for Now {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", clock::now())
    }
}
