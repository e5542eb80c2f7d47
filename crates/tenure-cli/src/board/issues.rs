//! `tenure board add`, `set`, `note`, `delete`, `depend` and `gate`.

use std::io::{self, Read};
use std::process::ExitCode;

use serde::Serialize;
use tenure::{Error, Result};
use tenure_board::issue::{GateState, Issue, IssueId, IssueState};
use tenure_board::{GateBy, NewIssue};

use super::open_board::OpenBoard;
use super::{Issues, answer};
use crate::cli::{
    BoardAdd, BoardDepend, BoardGateDefine, BoardGateJudge, BoardNote, BoardOne, BoardSet, Global,
    Judge,
};
use crate::output::{self, word};
use crate::report::Failure;

/// More than this on standard input is refused: no issue is larger.
const INPUT_BYTES_MAX: u64 = 2 << 20;

/// Creates an issue, and prints its id.
pub fn add(global: &Global, options: BoardAdd) -> Result<ExitCode, Failure> {
    let mut new = NewIssue::titled(options.title);
    new.id = options.id;
    new.body = options.body.map_or(Ok(String::new()), given)?;
    new.priority = options.priority;
    new.labels = options.labels;
    new.depends_on = options.depends_on;
    new.gates = options.gates;
    let opened = OpenBoard::open_or_make(&options.terms)?;
    let id = new.id.clone();
    let issue = opened.wait(id.as_ref(), |board| board.create(new))?;
    output::answer(global.json, &Issues::one(&issue), || {
        output::text(&format!("{}\n", issue.id))
    })
}

/// Returns a text, or standard input in place of `-`.
fn given(text: String) -> Result<String> {
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

/// Changes fields.
pub fn set(global: &Global, options: &BoardSet) -> Result<ExitCode, Failure> {
    let fields = options.fields.iter().map(|field| parsed(field));
    let fields: Vec<Field> = fields.collect::<Result<_>>()?;
    let opened = OpenBoard::open(&options.terms)?;
    let id = &options.id;
    let work = |issue: &mut Issue| {
        for field in &fields {
            match field.clone() {
                Field::Title(title) => issue.title = title,
                Field::Body(body) => issue.body = body,
                Field::Priority(priority) => issue.priority = priority,
                Field::Labels(labels) => issue.labels = labels,
                Field::Open => issue.state = IssueState::Open,
            }
        }
        Ok(())
    };
    let issue = opened.wait(Some(id), |board| board.update(id, work))?;
    answer(global, &issue, &format!("changed {id}"))
}

/// What a field is to be.
#[derive(Clone)]
enum Field {
    Title(String),
    Body(String),
    Priority(u32),
    Labels(Vec<String>),
    Open,
}

fn parsed(field: &str) -> Result<Field> {
    let bad = |problem: &str| Error::BadInput(format!("bad {field:?}: {problem}"));
    let known = "fields are title, body, priority, labels and state=open";
    let (name, value) = field.split_once('=').ok_or_else(|| bad(known))?;
    Ok(match name {
        "title" => Field::Title(value.to_owned()),
        "body" => Field::Body(value.to_owned()),
        "priority" => {
            let priority = value.parse();
            Field::Priority(priority.map_err(|_| bad("a priority is a whole number"))?)
        }
        "labels" => {
            let labels = value.split(',').filter(|label| !label.is_empty());
            Field::Labels(labels.map(str::to_owned).collect())
        }
        "state" if value == "open" => Field::Open,
        "state" => return Err(bad("to say that it is done, use: tenure board done ID")),
        _ => return Err(bad(known)),
    })
}

/// Leaves a note.
pub fn note(global: &Global, options: &BoardNote) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let text = given(options.text.clone())?;
    let (id, text) = (&options.id, text.trim_end());
    let issue = opened.wait(Some(id), |board| board.note(id, text))?;
    answer(global, &issue, &format!("noted on {id}"))
}

/// `{"deleted":[ID],"next":null}`.
#[derive(Serialize)]
struct Deleted<'a> {
    deleted: [&'a IssueId; 1],
    next: Option<u64>,
}

/// Deletes an issue.
pub fn delete(global: &Global, options: &BoardOne) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let id = &options.id;
    opened.wait(Some(id), |board| board.delete(id))?;
    let deleted = Deleted {
        deleted: [id],
        next: None,
    };
    output::answer(global.json, &deleted, || {
        word(&format!("deleted {id}"));
        Ok(())
    })
}

/// Adds a dependency, or takes it away.
pub fn depend(global: &Global, options: &BoardDepend) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let (id, on) = (&options.id, &options.on);
    let issue = opened.wait(Some(id), |board| match options.remove {
        true => board.undepend(id, on),
        false => board.depend(id, on),
    })?;
    let what = if options.remove {
        "no longer depends"
    } else {
        "depends"
    };
    answer(global, &issue, &format!("{id} {what} on {on}"))
}

/// `{"gates":[{"name","by"}],"next":null}`.
#[derive(Serialize)]
struct Gates<'a> {
    gates: [Gate<'a>; 1],
    next: Option<u64>,
}

#[derive(Serialize)]
struct Gate<'a> {
    name: &'a str,
    by: GateBy,
}

/// Defines a gate.
pub fn define_gate(global: &Global, options: &BoardGateDefine) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open_or_make(&options.terms)?;
    let by = match options.by {
        Judge::Anyone => GateBy::Anyone,
        Judge::People => GateBy::People,
    };
    let name = &options.name;
    opened.wait(None, |board| board.define_gate(name, by))?;
    let gates = [Gate { name, by }];
    output::answer(global.json, &Gates { gates, next: None }, || {
        word(&format!("there is a gate {name}"));
        Ok(())
    })
}

/// Passes or fails a gate of an issue.
pub fn judge_gate(
    global: &Global,
    options: &BoardGateJudge,
    verdict: GateState,
) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let (id, name) = (&options.id, &options.name);
    let issue = opened.wait(Some(id), |board| board.judge_gate(id, name, verdict))?;
    answer(
        global,
        &issue,
        &format!("{name} of {id} {}", verdict.as_str()),
    )
}
