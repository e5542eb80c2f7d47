//! `tenure board verify`: shows the faults of a board, and its repairs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use tenure_api::board::VerifyBoard;

use super::BoardSurface;
use crate::cli::Global;
use crate::commands::findings;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Verify {
    /// Repair what needs no person
    #[arg(long)]
    pub repair: bool,
    /// The board (default: that of the git repository, else of the user)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board verify
  tenure board verify --repair                 says what it did

Names every file that cannot be read, issues that the index does not list, and
what killed processes left. Nothing is repaired unasked. A repair puts both
sides of a merge of git together in index.json, lists issues and removes what
was left; issues, gates and the log are for people to correct.

With --json prints {\"issues\":N,\"findings\":[{\"file\",\"problem\",\"repair\"}]}.

Exit codes: 0 all is in order, or repaired; 65 there are findings; 66 there is
no board; 75 it is locked.";

/// Shows the faults of a board, and repairs them only if asked to.
pub fn verify(global: &Global, options: Verify) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open_unowned(global, options.dir)?;
    let verified = on.call(VerifyBoard {
        board: on.dir.clone(),
        repair: options.repair,
    })?;
    let seen = format!("{} issues", verified.issues);
    findings::answer(on.surface.is_json(), verified, |it| &mut it.findings, &seen)
}
