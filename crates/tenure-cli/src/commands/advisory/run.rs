//! `tenure advisory run`: a command under an advisory lock.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_core::advisory::Namespace;
use tenure_postgres::advisory::name_to_i32;
use tenure_run::{Signals, Watchdog};
use tenure_service::advisory::{AdvisoryRun, OuterLock};

use crate::cli::values::parse_wait;
use crate::commands::supervise::{command, exit_code, run_under};
use crate::report::{Failure, Report};
use crate::surface::{Surface, asked_wait, cancelled_by_signals};

/// The variable that names the advisory locks of the runs around this process.
const VARIABLE: &str = "TENURE_ADVISORY";

#[derive(Debug, Args)]
pub struct Run {
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 15s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(long)]
    pub no_wait: bool,
    /// What kind of thing is locked: agent (1), channel (2) or a number
    #[arg(value_parser = parse_namespace, allow_negative_numbers = true)]
    pub namespace: Namespace,
    /// Which one: a number, or a name that becomes one as other programs make it
    #[arg(value_parser = parse_id, allow_negative_numbers = true)]
    pub id: i32,
    /// The command to run, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure advisory run agent 42 -- ./hook session-start
  tenure advisory run --wait 3s agent 42 -- ./hook stop
  tenure advisory run --no-wait 7 nightly -- ./nightly    a namespace of your own
  tenure advisory run 1 -5 -- ./migrate                   numbers as they are

A name becomes a number of 32 bits as other programs make it; two names may meet
in one. The lock is held by a connection of its own, outside any transaction.

The command gets TENURE_STORE, TENURE_RESOURCE (advisory:NAMESPACE/ID) and
TENURE_TOKEN, a number that only goes up from holder to holder. If `run` itself
is killed, so is the command. If the connection is lost, or the server does not
answer for two seconds, the command gets SIGTERM, and SIGKILL half a second
later: a server that lost the connection gives the lock to the next at once, so
let what must not be written twice check the token.

Exit codes: those of the command (128 + signal; 126 not executable, 127 not
found); 69 unreachable; 75 busy or timed out; 78 no PostgreSQL, or a pooler that
shares sessions; 79 the lock was lost and the command was stopped; 130
interrupted while waiting.";

/// Acquires the lock, runs the command, releases the lock.
pub fn run(surface: &Surface, options: Run, report: Report) -> Result<ExitCode, Failure> {
    let watchdog = Watchdog::start()?;
    let caller = surface.caller(None)?;
    let mut command = command(&options.command)?;
    let request = AdvisoryRun {
        namespace: options.namespace,
        id: options.id,
        wait: asked_wait(options.no_wait, options.wait).map(|wait| wait.0),
        around: outer_locks(),
    };
    surface.block_on(async {
        let mut signals = Signals::listen()?;
        let holding = surface.service.hold_advisory_lock(request, &caller);
        let under = cancelled_by_signals(holding, &caller, &mut signals).await?;
        let passed_on = serde_json::to_string(&under.passed_on);
        command
            .env(VARIABLE, passed_on.expect("text and numbers are JSON"))
            .env("TENURE_STORE", &surface.service.located().url)
            .env("TENURE_RESOURCE", under.resource.as_str())
            .env("TENURE_TOKEN", under.token.to_string());
        let ended = run_under(command, under.held, Some(watchdog), &mut signals, report).await?;
        Ok(exit_code(ended, report))
    })
}

fn outer_locks() -> Vec<OuterLock> {
    let text = env::var(VARIABLE).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn parse_namespace(text: &str) -> Result<Namespace, String> {
    match text {
        "agent" => Ok(Namespace::AGENT),
        "channel" => Ok(Namespace::CHANNEL),
        number => match number.parse() {
            Ok(number) => Ok(Namespace::new(number)),
            Err(_) => Err("a namespace is agent, channel, or a number of 32 bits".into()),
        },
    }
}

/// Reads a number, or the name that stands for one. A number that does not fit is a slip, not a
/// name.
fn parse_id(text: &str) -> Result<i32, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse();
        return number.map_err(|_| "a number has 32 bits, from -2147483648 to 2147483647".into());
    }
    match text.is_empty() {
        true => Err("an id is a number or a name".into()),
        false => Ok(name_to_i32(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_word_or_a_number() {
        assert_eq!(parse_namespace("agent"), Ok(Namespace::AGENT));
        assert_eq!(parse_namespace("channel"), Ok(Namespace::CHANNEL));
        assert_eq!(parse_namespace("-7"), Ok(Namespace::new(-7)));
        for bad in ["", "Agent", "agents", "2147483648"] {
            assert!(parse_namespace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_is_a_number_or_the_number_of_a_name() {
        assert_eq!(parse_id("42"), Ok(42));
        assert_eq!(parse_id("-42"), Ok(-42));
        assert_eq!(parse_id("agent:1"), Ok(1_741_165_440));
        assert_eq!(parse_id("-"), Ok(name_to_i32("-")));
        for bad in ["", "2147483648", "-2147483649"] {
            assert!(parse_id(bad).is_err(), "{bad}");
        }
    }
}
