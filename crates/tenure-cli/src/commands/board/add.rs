//! `tenure board add`: creates an issue.

use std::io::{self, Read};
use std::process::ExitCode;

use clap::Args;
use tenure::{Error, Result};
use tenure_api::board::{AddIssue, IssueId, NewIssue, PRIORITY_DEFAULT};

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::output;
use crate::report::Failure;

/// The most that is read from standard input; no issue is larger.
const INPUT_BYTES_MAX: u64 = 2 << 20;

#[derive(Debug, Args)]
pub struct Add {
    /// Its id (default: a new one)
    #[arg(long)]
    pub id: Option<IssueId>,
    /// What is to be done, in full; `-` is standard input
    #[arg(long, value_name = "TEXT|-")]
    pub body: Option<String>,
    /// Lower numbers come first
    #[arg(long, value_name = "N", default_value_t = PRIORITY_DEFAULT)]
    pub priority: u32,
    /// A word to find it by
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// What must be done before
    #[arg(long = "depends", value_name = "ID")]
    pub depends_on: Vec<IssueId>,
    /// What must be passed before
    #[arg(long = "gate", value_name = "GATE")]
    pub gates: Vec<String>,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// What is to be done, in a line
    pub title: String,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board add 'Fix the login'
  tenure board add 'Deploy' --id deploy --depends fix-login --gate review
  git log -1 --format=%B | tenure board add 'Look at this' --body -

Prints the id. With --json prints {\"issues\":[…]}.

Exit codes: 0 on disk; 65 bad title, id or label, or the board is that of
another program; 66 no board, or what it
depends on or its gate is not there; 75 locked for too long; 76 the id is
taken, or was.";

/// Creates an issue, and prints its id.
pub fn add(global: &Global, options: Add) -> Result<ExitCode, Failure> {
    let mut issue = NewIssue::titled(options.title);
    issue.id = options.id;
    issue.body = options.body.map_or(Ok(String::new()), given)?;
    issue.priority = options.priority;
    issue.labels = options.labels;
    issue.depends_on = options.depends_on;
    issue.gates = options.gates;
    let on = BoardSurface::open(global, options.terms)?;
    let board = on.dir.clone();
    let added = on.call(AddIssue { board, issue })?;
    let ids = added.issues.iter().map(|issue| issue.id.to_string());
    on.surface.answer(&added, || output::lines(ids))
}

/// Returns a text as it is given, or standard input in place of `-`.
pub fn given(text: String) -> Result<String> {
    if text != "-" {
        return Ok(text);
    }
    let mut text = String::new();
    let read = io::stdin().take(INPUT_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => Error::BadInput("standard input is not UTF-8".into()),
        _ => Error::io("read", "standard input", source),
    })?;
    Ok(text)
}
