//! `tenure board show`: shows an issue.

use std::fmt::Write as _;
use std::process::ExitCode;

use tenure_api::board::{IssueId, IssueState, ShowIssue, ShownIssue};

use super::{BoardSurface, OneIssue};
use crate::cli::Global;
use crate::output;
use crate::people::{ago, visible};
use crate::report::Failure;

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board show fix-login
  tenure board show fix-login --json | jq '.issues[0].notes'

Exit codes: 0 shown; 65 its file is broken or missing; 66 there is none.";

/// Shows one issue.
pub fn show(global: &Global, options: OneIssue) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open(global, options.terms)?;
    let shown = on.call(ShowIssue {
        board: on.dir.clone(),
        issue: options.id,
    })?;
    on.surface.answer(&shown, || {
        let issues = shown.issues.iter().map(in_full);
        output::text(&issues.collect::<String>())
    })
}

fn in_full(issue: &ShownIssue) -> String {
    let mut text = format!("{}: {}\n", issue.id, visible(&issue.title));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<9} {}", visible(&value));
    };
    let state = match (&issue.state, &issue.claim) {
        (IssueState::Done, _) => "done".to_owned(),
        (IssueState::Open, None) => "open".to_owned(),
        (IssueState::Open, Some(claim)) => match claim.left.is_zero() {
            true => format!(
                "open; the claim of {} was over {}",
                claim.owner,
                ago(claim.expires_at)
            ),
            false => format!(
                "open, claimed by {} (token {}), which ends {}",
                claim.owner,
                claim.token,
                ago(claim.expires_at)
            ),
        },
    };
    line("state", state);
    line("priority", issue.priority.to_string());
    if !issue.labels.is_empty() {
        line("labels", issue.labels.join(", "));
    }
    if !issue.depends_on.is_empty() {
        let on: Vec<&str> = issue.depends_on.iter().map(IssueId::as_str).collect();
        line("depends", on.join(", "));
    }
    for (gate, state) in &issue.gates {
        line("gate", format!("{gate}: {state}"));
    }
    line(
        "created",
        format!("{} ({})", issue.created_at, ago(issue.created_at)),
    );
    line(
        "updated",
        format!("{} ({})", issue.updated_at, ago(issue.updated_at)),
    );
    if !issue.body.is_empty() {
        let _ = write!(text, "\n{}\n", issue.body.trim_end());
    }
    for note in &issue.notes {
        let _ = write!(
            text,
            "\nnote by {}, {}:\n",
            visible(&note.owner),
            ago(note.at)
        );
        for line in note.text.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}
