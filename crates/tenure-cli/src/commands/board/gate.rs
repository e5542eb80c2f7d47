//! `tenure board gate`: defines a gate, passes it or fails it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tenure_api::board::{DefineGate, GateBy, GateState, IssueId, JudgeGate, Verdict};

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::cli::values::word_of;
use crate::report::Failure;

#[derive(Debug, Subcommand)]
pub enum Gate {
    /// Define a gate that issues can have
    #[command(after_long_help = HELP)]
    Define(Define),
    /// Pass a gate of an issue
    #[command(after_long_help = HELP)]
    Pass(Judged),
    /// Fail a gate of an issue
    #[command(after_long_help = HELP)]
    Fail(Judged),
}

#[derive(Debug, Args)]
pub struct Define {
    /// Who may pass it; automated owners are no people
    #[arg(long, default_value = "anyone", value_parser = word_of::<GateBy>(["anyone", "people"]))]
    pub by: GateBy,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// Its name
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Judged {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
    /// The gate
    pub name: String,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board gate define review --by people
  tenure board add 'Deploy' --gate review      waits until it is passed
  tenure board gate pass deploy review
  tenure board gate fail deploy review

Owners like agent:* and job:* are no people (`automated` in tenure.toml).

Exit codes: 0 on disk; 66 no such issue or gate; 75 locked; 76 it is defined in
another way; 77 it is for people.";

/// Carries out one of the commands of `gate`.
pub fn gate(global: &Global, command: Gate) -> Result<ExitCode, Failure> {
    match command {
        Gate::Define(options) => define(global, options),
        Gate::Pass(options) => judge(global, options, Verdict::Pass),
        Gate::Fail(options) => judge(global, options, Verdict::Fail),
    }
}

/// Defines a gate.
fn define(global: &Global, options: Define) -> Result<ExitCode, Failure> {
    let said = format!("there is a gate {}", options.name);
    let on = BoardSurface::open(global, options.terms)?;
    let defined = on.call(DefineGate {
        board: on.dir.clone(),
        name: options.name,
        by: options.by,
    })?;
    on.answer(&defined, &said)
}

/// Passes or fails a gate of an issue.
fn judge(global: &Global, options: Judged, verdict: Verdict) -> Result<ExitCode, Failure> {
    let Judged { terms, id, name } = options;
    let said = format!("{name} of {id} {}", GateState::from(verdict));
    let on = BoardSurface::open(global, terms)?;
    let judged = on.call(JudgeGate {
        board: on.dir.clone(),
        issue: id,
        gate: name,
        verdict,
    })?;
    on.answer(&judged, &said)
}
