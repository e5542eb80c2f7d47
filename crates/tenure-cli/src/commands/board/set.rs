//! `tenure board set`: changes fields of an issue.

use std::process::ExitCode;

use clap::Args;
use tenure::{Error, Result};
use tenure_api::board::{IssueId, IssueState, SetIssue};

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
    /// title, body, priority, labels (comma-separated) or state=open
    #[arg(value_name = "FIELD=VALUE", required = true)]
    pub fields: Vec<String>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board set fix-login priority=0 labels=web,urgent
  tenure board set fix-login 'title=Fix the login page'
  tenure board set fix-login state=open        it is not done after all

Exit codes: 0 on disk; 65 no such field, or a bad value; 66 there is none; 75
it is locked for too long.";

/// Changes fields.
pub fn set(global: &Global, options: Set) -> Result<ExitCode, Failure> {
    let mut request = SetIssue {
        board: options.terms.dir.clone(),
        issue: options.id,
        title: None,
        body: None,
        priority: None,
        labels: None,
        state: None,
    };
    for field in &options.fields {
        read(field, &mut request)?;
    }
    let said = format!("changed {}", request.issue);
    let on = BoardSurface::open(global, options.terms)?;
    on.answer(&on.call(request)?, &said)
}

/// Reads a field and its value into the request. If a field is given twice, the last value counts.
fn read(field: &str, request: &mut SetIssue) -> Result<()> {
    let bad = |problem: &str| Error::BadInput(format!("bad {field:?}: {problem}"));
    let known = "fields are title, body, priority, labels and state=open";
    let (name, value) = field.split_once('=').ok_or_else(|| bad(known))?;
    match name {
        "title" => request.title = Some(value.to_owned()),
        "body" => request.body = Some(value.to_owned()),
        "priority" => {
            let priority = value.parse();
            let priority = priority.map_err(|_| bad("a priority is a whole number"))?;
            request.priority = Some(priority);
        }
        "labels" => {
            let labels = value.split(',').filter(|label| !label.is_empty());
            request.labels = Some(labels.map(str::to_owned).collect());
        }
        "state" if value == "open" => request.state = Some(IssueState::Open),
        "state" => return Err(bad("to say that it is done, use: tenure board done ID")),
        _ => return Err(bad(known)),
    }
    Ok(())
}
