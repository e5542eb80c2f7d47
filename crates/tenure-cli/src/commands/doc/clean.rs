//! `tenure doc clean`: removes files that crashed writers left.

use std::path::PathBuf;
use std::process::ExitCode;
use std::slice;

use clap::{Args, ValueHint};
use tenure::Error;
use tenure_api::doc;

use super::{Access, failure};
use crate::cli::Global;
use crate::output::{self, word};
use crate::people::{can_ask, is_confirmed, visible};
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Clean {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub access: Access,
    /// The document
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure doc clean a.json
  tenure doc clean --yes a.json

Shows what it will remove, and asks. Finishes transactions whose process died.
Temporary files of Node programs, FILE.tmp.HEX, go once their lock is free.
Never removes what a live writer uses, nor lock files, which stay for good.

Exit codes: 0 removed, or nothing was left; 1 you did not agree; 2 there is no
terminal to ask on; 75 it is being changed for too long.";

/// Shows the leftover files, asks, and removes them.
pub fn clean(global: &Global, options: Clean) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(options.access.owner.clone())?;
    let call = |dry_run| {
        let request = doc::Clean {
            file: options.path.clone(),
            dry_run,
            compat: options.access.compat,
            wait: options.access.wait(),
        };
        surface
            .call_on_files(request, &caller)
            .map_err(|failure| match failure {
                Failure::Error(error @ Error::NotFound(_)) => {
                    Failure::with_remedy(error, "correct the path")
                }
                failure => failure::about(failure, slice::from_ref(&options.path)),
            })
    };
    let mut cleaned = call(true)?;
    if !cleaned.removed.is_empty() {
        show(&cleaned.removed);
        if !options.yes && !can_ask() {
            return Err(Failure::usage(
                "there is no terminal to ask on, so clean needs --yes; no file was removed",
                "add --yes if you are sure; only what no live writer uses is removed",
            ));
        }
        let question = "Remove them? Type yes: ";
        if !options.yes && !is_confirmed(question).map_err(Failure::Output)? {
            return Err(Failure::Declined("no file was removed".into()));
        }
        cleaned = call(false)?;
    }
    surface.answer(&cleaned, || {
        if cleaned.removed.is_empty() {
            word(&format!(
                "nothing is left over at {}",
                options.path.display()
            ));
        }
        output::lines(cleaned.removed.iter().map(|path| format!("removed {path}")))
    })
}

/// Shows the files on standard error, where the question is.
fn show(left: &[String]) {
    let lines = left.iter().map(|path| format!("  {}\n", visible(path)));
    output::tell(&lines.collect::<String>());
}
