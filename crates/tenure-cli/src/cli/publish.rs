//! The words of `publish`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use tenure::Resource;

use super::values::{bytes, parse_lockable, parse_wait};

#[derive(Debug, Args)]
pub struct Publish {
    /// What to lock (default: file: and the path of TARGET)
    #[arg(long, value_parser = bytes(parse_lockable), conflicts_with_all = ["verify", "history"])]
    pub resource: Option<Resource>,
    /// What made the directory, for people who look
    #[arg(long, value_name = "TEXT", default_value = "publish")]
    pub op_type: String,
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 5s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with_all = ["verify", "history"])]
    pub wait: Option<Duration>,
    /// Compare every file of TARGET with its manifest
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::DirPath, conflicts_with = "history")]
    pub verify: Option<PathBuf>,
    /// Show what was published to TARGET, oldest first
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::DirPath)]
    pub history: Option<PathBuf>,
    /// The directory to publish
    #[arg(value_name = "SRC", value_hint = ValueHint::DirPath, required_unless_present_any = ["verify", "history"],
          conflicts_with_all = ["verify", "history"], requires = "target")]
    pub source: Option<PathBuf>,
    /// Where to
    #[arg(value_name = "TARGET", value_hint = ValueHint::DirPath)]
    pub target: Option<PathBuf>,
}
