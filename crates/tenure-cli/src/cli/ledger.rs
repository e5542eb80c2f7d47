//! The words of `ledger`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use tenure::Owner;

use super::values::{parse_limit, parse_wait};
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Ledger {
    /// Make a ledger
    #[command(after_long_help = help::LEDGER_INIT_LONG)]
    Init(LedgerInit),
    /// Append an event, and print its number
    #[command(after_long_help = help::LEDGER_APPEND_LONG)]
    Append(LedgerAppend),
    /// Show events in order
    #[command(after_long_help = help::LEDGER_LOG_LONG)]
    Log(LedgerLog),
    /// Print one event
    #[command(after_long_help = help::LEDGER_SHOW_LONG)]
    Show(LedgerShow),
    /// Say what is wrong with a ledger, and repair it
    #[command(after_long_help = help::LEDGER_VERIFY_LONG)]
    Verify(LedgerVerify),
    /// Claim a node, or renew a claim
    #[command(after_long_help = help::LEDGER_CLAIM_LONG)]
    Claim(LedgerClaim),
    /// End a claim
    #[command(after_long_help = help::LEDGER_RELEASE_LONG)]
    Release(LedgerRelease),
    /// Show who has which node
    #[command(after_long_help = help::LEDGER_CLAIMS_LONG)]
    Claims(LedgerDirectory),
    /// End claims whose time is over
    #[command(after_long_help = help::LEDGER_REAP_LONG)]
    Reap(LedgerReap),
}

/// Where the ledger is.
#[derive(Debug, Args)]
pub struct LedgerDirectory {
    /// The directory with the ledger in it
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

/// On whose behalf, and how long it is waited for the ledger.
#[derive(Debug, Args)]
pub struct LedgerTerms {
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 5s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if the ledger is locked
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Args)]
pub struct LedgerInit {
    /// How long claims last, from 1s to 1h (default: 5m)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub claim_ttl: Option<Duration>,
    #[command(flatten)]
    pub place: LedgerDirectory,
}

#[derive(Debug, Args)]
pub struct LedgerAppend {
    /// Append only if the newest event has this number; 0 if there is none
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Append only while this claim is held
    #[arg(long, value_name = "NODE#N")]
    pub token: Option<String>,
    #[command(flatten)]
    pub terms: LedgerTerms,
    #[command(flatten)]
    pub place: LedgerDirectory,
    /// The event, an object with a type; `-` is standard input
    #[arg(value_name = "JSON|-")]
    pub event: String,
}

#[derive(Debug, Args)]
pub struct LedgerLog {
    /// Only events after this number
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub after: u64,
    /// At most this many (default: 1000)
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Go on with each event as it comes
    #[arg(long)]
    pub follow: bool,
    #[command(flatten)]
    pub place: LedgerDirectory,
}

#[derive(Debug, Args)]
pub struct LedgerShow {
    #[command(flatten)]
    pub place: LedgerDirectory,
    /// The number of the event
    #[arg(value_name = "N")]
    pub sequence: u64,
}

#[derive(Debug, Args)]
pub struct LedgerVerify {
    /// Repair what can be repaired; what is taken out is kept
    #[arg(long)]
    pub repair: bool,
    /// Also mark missing events as such, and remove a lock of another program that is older than 30s
    #[arg(long, requires = "repair")]
    pub yes: bool,
    #[command(flatten)]
    pub place: LedgerDirectory,
}

#[derive(Debug, Args)]
pub struct LedgerClaim {
    /// How long it lasts, from 1s to 1h (default: as the ledger's meta.json says)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub terms: LedgerTerms,
    #[command(flatten)]
    pub place: LedgerDirectory,
    /// The node; with its token, its claim is renewed
    #[arg(value_name = "NODE[#TOKEN]")]
    pub node: String,
}

#[derive(Debug, Args)]
pub struct LedgerRelease {
    #[command(flatten)]
    pub terms: LedgerTerms,
    #[command(flatten)]
    pub place: LedgerDirectory,
    /// The node
    #[arg(value_name = "NODE")]
    pub node: String,
}

#[derive(Debug, Args)]
pub struct LedgerReap {
    #[command(flatten)]
    pub terms: LedgerTerms,
    #[command(flatten)]
    pub place: LedgerDirectory,
}
