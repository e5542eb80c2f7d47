//! The words of `run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure::{Mode, Owner};
use tenure_api::text::Wanted;

use super::values::{
    Slot, bytes, parse_meta, parse_mode, parse_purpose, parse_wait, parse_wanted, parse_with,
};

#[derive(Debug, Args)]
pub struct Run {
    /// How resources without =MODE are locked: read, write or upgradeable
    #[arg(long, value_name = "MODE", default_value = "write", value_parser = parse_mode(), hide_possible_values = true)]
    pub mode: Mode,
    /// Lock for reading, beside other readers: --mode read
    #[arg(short, long, conflicts_with = "mode")]
    pub shared: bool,
    /// Lock for writing, alone: --mode write, which is the default
    #[arg(short = 'x', long, conflicts_with_all = ["mode", "shared"])]
    pub exclusive: bool,
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 10m; agents and jobs: 90s)
    #[arg(short, long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(short, long)]
    pub no_wait: bool,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
    /// Why, for people who look
    #[arg(long, value_parser = parse_purpose)]
    pub purpose: Option<String>,
    /// Kept with the lease, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_meta)]
    pub meta: Option<Value>,
    /// At most N at a time on this machine, counted for this user; taken before the locks
    #[arg(long, value_name = "NAME[:N]", value_parser = bytes(Slot::parse))]
    pub slot: Option<Slot>,
    /// Take the locks that an operation needs, as `tenure op show` says
    #[arg(long, value_name = "OPERATION")]
    pub op: Option<String>,
    /// What the operation is about, such as project=atlas; several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_with, requires = "op")]
    pub with: Vec<(String, String)>,
    /// Where an outer run holds the lock already, run under it instead of failing
    #[arg(long)]
    pub reuse: bool,
    /// Do not pass the lock's descriptor on. If run is killed, so is the command itself, but
    /// not the processes it started in turn
    #[arg(short = 'o', long)]
    pub close: bool,
    /// The exit code for busy or timed out
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::BUSY)]
    pub busy_exit: u8,
    /// What to lock
    #[arg(required_unless_present_any = ["slot", "op"], value_name = "RESOURCE[=MODE]", value_parser = bytes(parse_wanted))]
    pub resources: Vec<Wanted>,
    /// The command to run, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Run {
    /// Returns the mode of resources without a mode of their own.
    pub fn mode(&self) -> Mode {
        if self.shared { Mode::Read } else { self.mode }
    }
}
