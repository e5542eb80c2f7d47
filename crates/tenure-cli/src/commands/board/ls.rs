//! `tenure board ls`: shows all issues, or some of them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use tenure::{Owner, duration};
use tenure_api::board::{
    Blocked, GateState, IssueId, IssueListing, IssueState, ListIssues, ShownIssue,
};

use super::BoardSurface;
use super::failure::is_of_another_program;
use crate::cli::Global;
use crate::cli::values::word_of;
use crate::output::word;
use crate::report::Failure;
use crate::table::Table;

#[derive(Debug, Args)]
pub struct Ls {
    /// Only those in this state
    #[arg(long, value_parser = word_of::<IssueState>(["open", "done"]))]
    pub state: Option<IssueState>,
    /// Only those with this label
    #[arg(long)]
    pub label: Option<String>,
    /// Only those that wait for nothing and nobody has
    #[arg(long)]
    pub ready: bool,
    /// Only those that this owner works on
    #[arg(long)]
    pub owner: Option<Owner>,
    /// The board (default: that of the git repository, else of the user)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board ls
  tenure board ls --ready --label web
  tenure board ls --owner agent:7 --json

Lowest priority number first, then oldest. With --json prints {\"issues\":[…],
\"unreadable\":[{\"id\",\"title\",\"file\",\"problem\"}],\"next\":null}.

Exit codes: 0 shown; 65 index.json is broken; 66 there is no board.";

/// Shows issues.
pub fn ls(global: &Global, options: Ls) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open_unowned(global, options.dir)?;
    let listing = on.call(ListIssues {
        board: on.dir.clone(),
        state: options.state,
        label: options.label,
        ready: options.ready,
        owner: options.owner,
    })?;
    on.surface.answer(&listing, || print_table(&listing))
}

fn print_table(listing: &IssueListing) -> Result<(), Failure> {
    let IssueListing {
        issues,
        unreadable,
        blocked,
        ..
    } = listing;
    if issues.is_empty() && unreadable.is_empty() {
        word("there is no such issue");
    }
    let headings = vec!["ID", "STATE", "PRIORITY", "TITLE", "LABELS", "WHY"];
    let mut table = Table::new(headings).with_colours(1, colour);
    for issue in issues {
        let (state, why) = match (issue.state, blocked.get(&issue.id)) {
            (IssueState::Done, _) => ("done", String::new()),
            (IssueState::Open, None) => ("ready", String::new()),
            (IssueState::Open, Some(Blocked::Claimed)) => ("claimed", by(issue)),
            (IssueState::Open, Some(blocked)) => ("blocked", waits(blocked)),
        };
        table.push([
            issue.id.to_string(),
            state.into(),
            issue.priority.to_string(),
            issue.title.clone(),
            issue.labels.join(","),
            why,
        ]);
    }
    for broken in unreadable {
        let title = broken.title.clone().unwrap_or_default();
        let id = broken.id.to_string();
        let state = match is_of_another_program(&broken.problem) {
            true => "foreign",
            false => "broken",
        };
        let cells = [
            id,
            state.into(),
            "-".into(),
            title,
            String::new(),
            broken.problem.clone(),
        ];
        table.push(cells);
    }
    table.print(&["WHY", "TITLE", "LABELS"])
}

fn colour(state: &str) -> &'static str {
    match state {
        "ready" => "\u{1b}[32m",
        "claimed" => "\u{1b}[33m",
        "blocked" => "\u{1b}[35m",
        "broken" => "\u{1b}[31m",
        "done" => "\u{1b}[2m",
        _ => "",
    }
}

fn by(issue: &ShownIssue) -> String {
    let Some(claim) = &issue.claim else {
        return String::new();
    };
    format!("by {}, {} left", claim.owner, duration::show(claim.left))
}

fn waits(blocked: &Blocked) -> String {
    let Blocked::Waiting(issues, gates) = blocked else {
        return String::new();
    };
    let gate = |(name, state): &(String, GateState)| format!("gate {name} {state}");
    let issues = issues.iter().map(IssueId::to_string);
    let all: Vec<String> = issues.chain(gates.iter().map(gate)).collect();
    format!("waits for {}", all.join(", "))
}
