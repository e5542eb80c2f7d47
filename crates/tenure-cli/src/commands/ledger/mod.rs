//! `tenure ledger`: events that are never lost, and nodes that one agent works on.

mod append;
mod claim;
mod claims;
mod failure;
mod init;
mod log;
mod reap;
mod release;
mod show;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use tenure::Owner;
use tenure_api::text::Span;

use crate::cli::Global;
use crate::cli::values::parse_wait;
use crate::report::Failure;
use crate::surface::asked_wait;

#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Make a ledger
    #[command(after_long_help = init::HELP)]
    Init(init::Init),
    /// Append an event, and print its number
    #[command(after_long_help = append::HELP)]
    Append(append::Append),
    /// Show events in order
    #[command(after_long_help = log::HELP)]
    Log(log::Log),
    /// Print one event
    #[command(after_long_help = show::HELP)]
    Show(show::Show),
    /// Say what is wrong with a ledger, and repair it
    #[command(after_long_help = verify::HELP)]
    Verify(verify::Verify),
    /// Claim a node, or renew a claim
    #[command(after_long_help = claim::HELP)]
    Claim(claim::Claim),
    /// End a claim
    #[command(after_long_help = release::HELP)]
    Release(release::Release),
    /// Show who has which node
    #[command(after_long_help = claims::HELP)]
    Claims(Place),
    /// End claims whose time is over
    #[command(after_long_help = reap::HELP)]
    Reap(reap::Reap),
}

/// The place of a ledger.
#[derive(Debug, Args)]
pub struct Place {
    /// The directory with the ledger in it
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

/// The owner of a request, and the wait for the ledger.
#[derive(Debug, Args)]
pub struct Terms {
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

impl Terms {
    fn wait(&self) -> Option<Span> {
        asked_wait(self.no_wait, self.wait)
    }
}

/// Shown after the commands.
pub const HELP: &str = "\
Examples:
  tenure ledger init proof
  tenure ledger append proof '{\"type\":\"node_created\",\"node_id\":\"1.2\"}'
  tenure ledger claim proof 1.2 --ttl 5m       exactly one of all agents wins
  tenure ledger append proof --token 1.2#2 '{\"type\":\"node_proved\"}'
  tenure ledger release proof 1.2
  tenure ledger log proof --follow

An event is a file, DIR/ledger/event-000001.json, on disk before its number is
printed, and never changed. Other programs may append to the same directory,
with ledger.lock as the protocol in docs/ledger.md says.";

/// Carries out one of the commands of `ledger`.
pub fn ledger(global: &Global, command: LedgerCommand) -> Result<ExitCode, Failure> {
    match command {
        LedgerCommand::Init(options) => init::init(global, options),
        LedgerCommand::Append(options) => append::append(global, options),
        LedgerCommand::Log(options) => log::log(global, options),
        LedgerCommand::Show(options) => show::show(global, options),
        LedgerCommand::Verify(options) => verify::verify(global, options),
        LedgerCommand::Claim(options) => claim::claim(global, options),
        LedgerCommand::Release(options) => release::release(global, options),
        LedgerCommand::Claims(options) => claims::claims(global, options),
        LedgerCommand::Reap(options) => reap::reap(global, options),
    }
}
