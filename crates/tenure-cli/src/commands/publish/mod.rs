//! `tenure publish`: puts a directory in place whole, and verifies one that is in place.

mod history;
mod progress;
mod put;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueHint};
use tenure::Resource;

use crate::cli::Global;
use crate::cli::values::{bytes, parse_lockable, parse_wait};
use crate::report::Failure;
use crate::surface::Surface;

pub use progress::CopyLine;

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

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure publish out /srv/tiles                put a copy of out in place, whole
  tenure publish out /srv/tiles --resource map:atlas/m3 --op-type tiles
  tenure publish --verify /srv/tiles           compare every file
  tenure publish --history /srv/tiles --json

SRC is copied to <parent of TARGET>/tmp/<id>, hashed and synced, and then takes
the place of TARGET in one step; a reader sees the old directory or the new.
A manifest in the store says what is in it, before and after. What a crash left
is finished or given up by the next publish to TARGET, and by tenure recover.
Links are copied as links. Modes are kept. At most 100,000 files.
Inside a `tenure run` that holds the resource for writing, its lease is used.

With --json prints {\"manifests\":[{\"id\",\"op_type\",\"target\",\"tmp\",\"state\",
\"files\":[{\"relative_path\",\"sha256\"}],\"created_at\",\"committed_at\",\"author\",
\"token\"}],\"next\"}; with --verify {\"manifest\",\"files\",\"differences\":[…]},
and {\"error\"} beside them if files differ.

Exit codes: 0 in place, or as the manifest says; 65 SRC changed or cannot be
published, TARGET is on another device, or files differ; 66 nothing was
published to TARGET; 69 the store or the disk failed: look at --history; 75
busy; 76 a program without locks changed TARGET; 77 another publisher took
over; 78 the store keeps no records; 130 interrupted, nothing in place.";

/// Publishes a directory, verifies one, or shows the history of a target.
pub fn publish(global: &Global, options: Publish) -> Result<ExitCode, Failure> {
    // The lease is renewed on another thread while files are copied.
    let surface = Surface::open(global)?.on_threads()?;
    if let Some(target) = options.verify {
        return verify::verify(&surface, target);
    }
    if let Some(target) = options.history {
        return history::history(&surface, target);
    }
    put::put(&surface, options)
}
