//! The words of `board`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use tenure::Owner;
use tenure_board::issue::IssueId;

use super::values::{parse_ttl, parse_wait};
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Board {
    /// Make a board
    #[command(after_long_help = help::BOARD_INIT_LONG)]
    Init(BoardTerms),
    /// Create an issue, and print its id
    #[command(after_long_help = help::BOARD_ADD_LONG)]
    Add(BoardAdd),
    /// Show an issue
    #[command(after_long_help = help::BOARD_SHOW_LONG)]
    Show(BoardOne),
    /// Show all issues
    #[command(after_long_help = help::BOARD_LS_LONG, visible_alias = "list")]
    Ls(BoardLs),
    /// Change fields of an issue
    #[command(after_long_help = help::BOARD_SET_LONG)]
    Set(BoardSet),
    /// Leave a note for the next one who works on an issue
    #[command(after_long_help = help::BOARD_NOTE_LONG)]
    Note(BoardNote),
    /// Delete an issue
    #[command(after_long_help = help::BOARD_DELETE_LONG)]
    Delete(BoardOne),
    /// Make an issue depend on another
    #[command(after_long_help = help::BOARD_DEPEND_LONG)]
    Depend(BoardDepend),
    /// Define a gate, pass it or fail it
    #[command(after_long_help = help::BOARD_GATE_LONG)]
    Gate {
        #[command(subcommand)]
        command: BoardGate,
    },
    /// Show what happened
    #[command(after_long_help = help::BOARD_EVENTS_LONG)]
    Events(BoardEvents),
    /// Look at every file, and repair what can be repaired
    #[command(after_long_help = help::BOARD_VERIFY_LONG)]
    Verify(BoardVerify),
    /// Print the next issue that is ready, and claim it
    #[command(after_long_help = help::BOARD_NEXT_LONG)]
    Next(BoardNext),
    /// Claim the next issue and run a command for it
    #[command(after_long_help = help::BOARD_RUN_LONG)]
    Run(BoardRun),
    /// Claim an issue, and print the token
    #[command(after_long_help = help::BOARD_CLAIM_LONG)]
    Claim(BoardClaim),
    /// Give a claim more time
    #[command(after_long_help = help::BOARD_RENEW_LONG)]
    Renew(BoardClaim),
    /// End a claim, so that another can have the issue
    #[command(after_long_help = help::BOARD_RELEASE_LONG)]
    Release(BoardEnd),
    /// Say that an issue is done
    #[command(after_long_help = help::BOARD_DONE_LONG)]
    Done(BoardEnd),
}

/// Which board, and on whose behalf.
#[derive(Debug, Args)]
pub struct BoardTerms {
    /// The board (default: that of the git repository, else of the user)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
}

#[derive(Debug, Args)]
pub struct BoardAdd {
    /// Its id (default: a new one)
    #[arg(long)]
    pub id: Option<IssueId>,
    /// What is to be done, in full; `-` is standard input
    #[arg(long, value_name = "TEXT|-")]
    pub body: Option<String>,
    /// Lower numbers come first
    #[arg(long, value_name = "N", default_value_t = tenure_board::issue::PRIORITY_DEFAULT)]
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

#[derive(Debug, Args)]
pub struct BoardOne {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
}

/// A state to filter by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateFilter {
    Open,
    Done,
}

#[derive(Debug, Args)]
pub struct BoardLs {
    /// Only those in this state
    #[arg(long)]
    pub state: Option<StateFilter>,
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

#[derive(Debug, Args)]
pub struct BoardSet {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
    /// title, body, priority, labels (comma-separated) or state=open
    #[arg(value_name = "FIELD=VALUE", required = true)]
    pub fields: Vec<String>,
}

#[derive(Debug, Args)]
pub struct BoardNote {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
    /// What the next one must know; `-` is standard input
    #[arg(value_name = "TEXT|-")]
    pub text: String,
}

#[derive(Debug, Args)]
pub struct BoardDepend {
    /// The issue that must be done before
    #[arg(long, value_name = "ID")]
    pub on: IssueId,
    /// Take the dependency away
    #[arg(long)]
    pub remove: bool,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue that waits
    pub id: IssueId,
}

#[derive(Debug, Subcommand)]
pub enum BoardGate {
    /// Define a gate that issues can have
    #[command(after_long_help = help::BOARD_GATE_LONG)]
    Define(BoardGateDefine),
    /// Pass a gate of an issue
    #[command(after_long_help = help::BOARD_GATE_LONG)]
    Pass(BoardGateJudge),
    /// Fail a gate of an issue
    #[command(after_long_help = help::BOARD_GATE_LONG)]
    Fail(BoardGateJudge),
}

/// Who passes a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Judge {
    Anyone,
    People,
}

#[derive(Debug, Args)]
pub struct BoardGateDefine {
    /// Who may pass it; automated owners are no people
    #[arg(long, default_value = "anyone")]
    pub by: Judge,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// Its name
    pub name: String,
}

#[derive(Debug, Args)]
pub struct BoardGateJudge {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
    /// The gate
    pub name: String,
}

#[derive(Debug, Args)]
pub struct BoardEvents {
    /// Only what comes after this line of the log
    #[arg(
        long,
        value_name = "LINE",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub after: u64,
    /// Go on with each event as it comes
    #[arg(long)]
    pub follow: bool,
    /// The board (default: that of the git repository, else of the user)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BoardVerify {
    /// Repair what needs no person
    #[arg(long)]
    pub repair: bool,
    /// The board (default: that of the git repository, else of the user)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BoardNext {
    /// Claim it: of all who ask, one gets it
    #[arg(long)]
    pub claim: bool,
    /// Only those with this label
    #[arg(long)]
    pub label: Option<String>,
    /// How long to wait for one to become ready (default: not at all)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub wait: Option<Duration>,
    /// How long the claim lasts, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, requires = "claim")]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub terms: BoardTerms,
}

#[derive(Debug, Args)]
pub struct BoardRun {
    /// Only issues with this label
    #[arg(long)]
    pub label: Option<String>,
    /// How long to wait for one to become ready (default: not at all)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub wait: Option<Duration>,
    /// How long the claim lasts if this process is gone, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The command; it gets TENURE_ISSUE, TENURE_TOKEN, and the issue on standard input
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct BoardClaim {
    /// How long it lasts, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    /// The token of the claim that is renewed
    #[arg(long, value_name = "N")]
    pub token: Option<u64>,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
}

#[derive(Debug, Args)]
pub struct BoardEnd {
    /// The token of the claim: refused if it is not the newest
    #[arg(long, value_name = "N")]
    pub token: Option<u64>,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
}
