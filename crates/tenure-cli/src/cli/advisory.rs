//! The words of `advisory`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure_postgres::advisory::{Namespace, name_to_i32};

use super::values::parse_wait;
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Advisory {
    /// Show who holds and awaits advisory locks, of Tenure or not
    #[command(after_long_help = help::ADVISORY_LS_LONG, visible_alias = "list")]
    Ls,
    /// Take an advisory lock, run a command under it, release it
    #[command(after_long_help = help::ADVISORY_RUN_LONG)]
    Run(AdvisoryRun),
}

#[derive(Debug, Args)]
pub struct AdvisoryRun {
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

/// A number that does not fit is a slip, not a name.
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
