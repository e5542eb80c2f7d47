//! `tenure board init`: makes a board.

use std::process::ExitCode;

use tenure_api::board::InitBoard;

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::output::said;
use crate::report::Failure;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board init
  tenure board init --dir todo                 plain files, with a .gitignore

A board that is there stays as it is. In its usual place it is also made by the
first `tenure board add`.

Exit codes: 0 it is there; 69 it cannot be made.";

/// Makes a board, and prints its directory.
pub fn init(global: &Global, terms: BoardTerms) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open(global, terms)?;
    let board = on.dir.clone();
    let made = on.surface.call_on_files(InitBoard { board }, &on.caller)?;
    on.surface.answer(&made, || {
        said(&format!("there is a board in {}", made.board))
    })
}
