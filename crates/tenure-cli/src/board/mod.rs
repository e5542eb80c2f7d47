//! `tenure board`: issues that many agents create, change and claim at once.
//!
//! | file | what it does |
//! |---|---|
//! | `open_board` | opens the board of a command: place, settings, owner, waits |
//! | `issues` | add, set, note, delete, depend, gate |
//! | `look` | show, ls, events |
//! | `claims` | next, claim, renew, release, done |
//! | `verify` | faults, and the repair of some |
//! | `run`, `held` | a command for the next issue; its claim while that runs |
//! | `failure` | what goes wrong, with what to do about it here |
//!
//! The format, the locks and the writes of a board are all in `tenure_board`.

mod claims;
mod failure;
mod held;
mod issues;
mod look;
mod open_board;
mod run;
mod verify;

use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use tenure_board::issue::{GateState, Issue};

use crate::cli::{Board, BoardGate, BoardTerms, Global};
use crate::context::Context;
use crate::output::{self, word};
use crate::report::{Failure, Report};

/// Carries out one of them.
pub fn board(global: &Global, command: Board, report: Report) -> Result<ExitCode, Failure> {
    match command {
        Board::Init(terms) => init(global, &terms),
        Board::Add(options) => issues::add(global, options),
        Board::Show(options) => look::show(global, &options),
        Board::Ls(options) => look::ls(global, &options),
        Board::Set(options) => issues::set(global, &options),
        Board::Note(options) => issues::note(global, &options),
        Board::Delete(options) => issues::delete(global, &options),
        Board::Depend(options) => issues::depend(global, &options),
        Board::Gate { command } => match command {
            BoardGate::Define(options) => issues::define_gate(global, &options),
            BoardGate::Pass(options) => issues::judge_gate(global, &options, GateState::Passed),
            BoardGate::Fail(options) => issues::judge_gate(global, &options, GateState::Failed),
        },
        Board::Events(options) => look::events(global, &options),
        Board::Verify(options) => verify::verify(global, &options),
        Board::Next(options) => claims::next(global, &options),
        Board::Run(options) => run::run(global, options, report),
        Board::Claim(options) => claims::claim(global, &options),
        Board::Renew(options) => claims::renew(global, &options),
        Board::Release(options) => claims::release(global, &options),
        Board::Done(options) => claims::done(global, &options),
    }
}

/// `{"issues":[…],"next":null}`.
#[derive(Serialize)]
struct Issues {
    issues: Vec<Value>,
    next: Option<u64>,
}

impl Issues {
    fn one(issue: &Issue) -> Self {
        Self {
            issues: vec![issue.shown()],
            next: None,
        }
    }
}

/// Answers with one issue, or in words.
fn answer(global: &Global, issue: &Issue, in_words: &str) -> Result<ExitCode, Failure> {
    output::answer(global.json, &Issues::one(issue), || {
        word(in_words);
        Ok(())
    })
}

/// `{"board":DIR}`.
#[derive(Serialize)]
struct Made {
    board: String,
}

fn init(global: &Global, terms: &BoardTerms) -> Result<ExitCode, Failure> {
    let directory = open_board::directory(&Context::for_board()?, terms.dir.as_deref())?;
    tenure_board::Board::init(&directory)?;
    let board = directory.display().to_string();
    let in_words = format!("there is a board in {board}");
    output::answer(global.json, &Made { board }, || {
        word(&in_words);
        Ok(())
    })
}
