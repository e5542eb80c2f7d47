//! `tenure board note`: leaves a note.

use std::process::ExitCode;

use clap::Args;
use tenure_api::board::{AddNote, IssueId};

use super::add::given;
use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Note {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
    /// What the next one must know; `-` is standard input
    #[arg(value_name = "TEXT|-")]
    pub text: String,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board note fix-login 'the test needs a database'
  tenure board note fix-login - < findings.txt

Who, when and what is kept in the issue, for the next one who works on it.

Exit codes: 0 on disk; 65 empty or too long; 66 there is none; 75 locked.";

/// Leaves a note.
pub fn note(global: &Global, options: Note) -> Result<ExitCode, Failure> {
    let text = given(options.text)?.trim_end().to_owned();
    let said = format!("noted on {}", options.id);
    let on = BoardSurface::open(global, options.terms)?;
    let noted = on.call(AddNote {
        board: on.dir.clone(),
        issue: options.id,
        text,
    })?;
    on.answer(&noted, &said)
}
