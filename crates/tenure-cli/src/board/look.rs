//! `tenure board show`, `ls` and `events`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tenure::{Error, duration};
use tenure_board::issue::{GateState, Issue, IssueId, IssueState};
use tenure_board::log::{BoardEvent, EventCursor};
use tenure_board::{Blocked, Board, Unreadable};

use super::Issues;
use super::failure::{about, is_of_another_program};
use super::open_board::{OpenBoard, to_read};
use crate::cli::{BoardEvents, BoardLs, BoardOne, Global, StateFilter};
use crate::output::{self, word};
use crate::people::{ago, visible};
use crate::report::Failure;
use crate::table::Table;

/// The interval of checks that somebody still reads the output.
const UNREAD_EVERY: Duration = Duration::from_millis(100);

/// Shows one issue.
pub fn show(global: &Global, options: &BoardOne) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let issue = opened.wait(Some(&options.id), |board| board.issue(&options.id))?;
    output::answer(global.json, &Issues::one(&issue), || {
        output::text(&in_full(opened.board(), &issue))
    })
}

fn in_full(board: &Board, issue: &Issue) -> String {
    let mut text = format!("{}: {}\n", issue.id, visible(&issue.title));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<9} {}", visible(&value));
    };
    let state = match (&issue.state, &issue.claim) {
        (IssueState::Done, _) => "done".to_owned(),
        (IssueState::Open, None) => "open".to_owned(),
        (IssueState::Open, Some(claim)) => match board.is_claim_over(issue) {
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
        line("gate", format!("{gate}: {}", state.as_str()));
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

/// `{"issues":[…],"unreadable":[…],"next":null}`.
#[derive(Serialize)]
struct Listed {
    issues: Vec<Value>,
    unreadable: Vec<Broken>,
    next: Option<u64>,
}

/// `{"id","title","file","problem"}`.
#[derive(Serialize)]
struct Broken {
    id: IssueId,
    title: Option<String>,
    file: String,
    problem: String,
}

/// Shows all issues, or some of them.
pub fn ls(global: &Global, options: &BoardLs) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open_to_read(options.dir.as_deref())?;
    let list = opened.wait(None, Board::list)?;
    let blocked = opened.board().blocked(&list);
    let issues = list
        .issues
        .iter()
        .filter(|issue| is_wanted(issue, &blocked, options));
    let issues: Vec<&Issue> = issues.collect();
    let has_filter = options.state.is_some()
        || options.label.is_some()
        || options.owner.is_some()
        || options.ready;
    let unreadable = if has_filter {
        Vec::new()
    } else {
        list.unreadable.clone()
    };
    let broken = |one: &Unreadable| Broken {
        id: one.id.clone(),
        title: one.title.clone(),
        file: one.path.display().to_string(),
        problem: one.problem.clone(),
    };
    let listed = Listed {
        issues: issues.iter().map(|issue| issue.shown()).collect(),
        unreadable: unreadable.iter().map(broken).collect(),
        next: None,
    };
    output::answer(global.json, &listed, || {
        print_table(&issues, &blocked, &unreadable)
    })
}

fn is_wanted(issue: &Issue, blocked: &HashMap<IssueId, Blocked>, options: &BoardLs) -> bool {
    let is_open = issue.state == IssueState::Open;
    let in_state = options
        .state
        .is_none_or(|state| is_open == (state == StateFilter::Open));
    let has_label = options
        .label
        .as_ref()
        .is_none_or(|label| issue.labels.contains(label));
    let is_ready = !options.ready || is_open && !blocked.contains_key(&issue.id);
    let is_owners = options.owner.as_ref().is_none_or(|owner| {
        let claim = issue
            .claim
            .as_ref()
            .filter(|claim| claim.owner == owner.as_str());
        claim.is_some() && blocked.get(&issue.id) == Some(&Blocked::Claimed)
    });
    in_state && has_label && is_ready && is_owners
}

fn print_table(
    issues: &[&Issue],
    blocked: &HashMap<IssueId, Blocked>,
    unreadable: &[Unreadable],
) -> Result<(), Failure> {
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

fn by(issue: &Issue) -> String {
    let Some(claim) = &issue.claim else {
        return String::new();
    };
    format!("by {}, {} left", claim.owner, duration::show(claim.left()))
}

fn waits(blocked: &Blocked) -> String {
    let Blocked::Waiting(issues, gates) = blocked else {
        return String::new();
    };
    let gate = |(name, state): &(String, GateState)| format!("gate {name} {}", state.as_str());
    let issues = issues.iter().map(IssueId::to_string);
    let all: Vec<String> = issues.chain(gates.iter().map(gate)).collect();
    format!("waits for {}", all.join(", "))
}

/// `{"events":[…],"next":null}`.
#[derive(Serialize)]
struct Page {
    events: Vec<BoardEventLine>,
    next: Option<u64>,
}

/// An event, its text as it was written.
#[derive(Serialize)]
struct BoardEventLine {
    line: u64,
    event: Box<RawValue>,
}

/// Shows what happened, or goes on with each event as it comes.
pub fn events(global: &Global, options: &BoardEvents) -> Result<ExitCode, Failure> {
    let board = to_read(options.dir.as_deref())?;
    let failed = |error| about(error, Duration::ZERO);
    let mut cursor = EventCursor::default();
    let mut length = board.events_length().map_err(failed)?;
    let events = board.events_since(&mut cursor, options.after);
    let mut events = events.map_err(failed)?;
    if !options.follow {
        let page = Page {
            events: events.iter().map(shown).collect::<Result<_, _>>()?,
            next: None,
        };
        return output::answer(global.json, &page, || {
            events.iter().try_for_each(|event| print(event, false))
        });
    }
    let mut last = options.after;
    loop {
        for event in &events {
            print(event, global.json)?;
            last = event.line;
        }
        while !board
            .wait_for_events(length, UNREAD_EVERY)
            .map_err(failed)?
        {
            if output::is_unread() {
                return Ok(ExitCode::SUCCESS);
            }
        }
        length = board.events_length().map_err(failed)?;
        events = board.events_since(&mut cursor, last).map_err(failed)?;
    }
}

fn shown(event: &BoardEvent) -> Result<BoardEventLine, Failure> {
    let text = RawValue::from_string(event.text.clone());
    let text = text.map_err(|error| Error::Internal(format!("an event is not JSON: {error}")))?;
    Ok(BoardEventLine {
        line: event.line,
        event: text,
    })
}

/// `7  2026-…  agent:1  issue_claimed fix-login`.
fn print(event: &BoardEvent, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&shown(event)?);
    }
    let field = |name: &str| event.field(name).unwrap_or_default();
    let about = event.field("issue_id").or_else(|| event.field("gate"));
    output::text(&format!(
        "{}  {}  {}  {} {}\n",
        event.line,
        visible(&field("timestamp")),
        visible(&field("owner")),
        visible(&field("type")),
        visible(&about.unwrap_or_default())
    ))
}
