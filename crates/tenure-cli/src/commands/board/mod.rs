//! `tenure board`: issues that many agents create, change and claim at once.
//!
//! Each file holds a command. `failure` holds the remedies of failures.

mod add;
mod claim;
mod delete;
mod depend;
mod done;
mod events;
mod failure;
mod gate;
mod init;
mod ls;
mod next;
mod note;
mod release;
mod renew;
mod run;
mod set;
mod show;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use tenure::Owner;
use tenure_api::Operation;
use tenure_api::board::IssueId;
use tenure_service::{Caller, Handle, Service};

use crate::cli::Global;
use crate::output::said;
use crate::report::{Failure, Report};
use crate::surface::Surface;

#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// Make a board
    #[command(after_long_help = init::HELP)]
    Init(BoardTerms),
    /// Create an issue, and print its id
    #[command(after_long_help = add::HELP)]
    Add(add::Add),
    /// Show an issue
    #[command(after_long_help = show::HELP)]
    Show(OneIssue),
    /// Show all issues
    #[command(after_long_help = ls::HELP, visible_alias = "list")]
    Ls(ls::Ls),
    /// Change fields of an issue
    #[command(after_long_help = set::HELP)]
    Set(set::Set),
    /// Leave a note for the next one who works on an issue
    #[command(after_long_help = note::HELP)]
    Note(note::Note),
    /// Delete an issue
    #[command(after_long_help = delete::HELP)]
    Delete(OneIssue),
    /// Make an issue depend on another
    #[command(after_long_help = depend::HELP)]
    Depend(depend::Depend),
    /// Define a gate, pass it or fail it
    #[command(after_long_help = gate::HELP)]
    Gate {
        #[command(subcommand)]
        command: gate::Gate,
    },
    /// Show what happened
    #[command(after_long_help = events::HELP)]
    Events(events::Events),
    /// Look at every file, and repair what can be repaired
    #[command(after_long_help = verify::HELP)]
    Verify(verify::Verify),
    /// Print the next issue that is ready, and claim it
    #[command(after_long_help = next::HELP)]
    Next(next::Next),
    /// Claim the next issue and run a command for it
    #[command(after_long_help = run::HELP)]
    Run(run::Run),
    /// Claim an issue, and print the token
    #[command(after_long_help = claim::HELP)]
    Claim(claim::Claim),
    /// Give a claim more time
    #[command(after_long_help = renew::HELP)]
    Renew(claim::Claim),
    /// End a claim, so that another can have the issue
    #[command(after_long_help = release::HELP)]
    Release(release::Release),
    /// Say that an issue is done
    #[command(after_long_help = done::HELP)]
    Done(release::Release),
}

/// The board, and the owner of a request to it.
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
pub struct OneIssue {
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The issue
    pub id: IssueId,
}

/// Shown after the commands.
pub const HELP: &str = "\
Examples:
  tenure board init
  tenure board add 'Fix the login' --priority 1 --label web
  tenure board ls
  tenure board next --claim                    exactly one of all agents gets it
  tenure board done fix-login
  tenure board run -- ./agent                  claim, run, done: one issue

Issues are plain JSON files that any number of processes change at once: no
update is lost, no issue is taken twice, and what was acknowledged is on disk.
The board is in the git repository, so that its worktrees share it, or beside
the store where tenure.toml says store = \"user:\", else in the user's state
directory; --dir puts it anywhere.";

/// Carries out one of the commands of `board`.
pub fn board(global: &Global, command: BoardCommand, report: Report) -> Result<ExitCode, Failure> {
    match command {
        BoardCommand::Init(terms) => init::init(global, terms),
        BoardCommand::Add(options) => add::add(global, options),
        BoardCommand::Show(options) => show::show(global, options),
        BoardCommand::Ls(options) => ls::ls(global, options),
        BoardCommand::Set(options) => set::set(global, options),
        BoardCommand::Note(options) => note::note(global, options),
        BoardCommand::Delete(options) => delete::delete(global, options),
        BoardCommand::Depend(options) => depend::depend(global, options),
        BoardCommand::Gate { command } => gate::gate(global, command),
        BoardCommand::Events(options) => events::events(global, options),
        BoardCommand::Verify(options) => verify::verify(global, options),
        BoardCommand::Next(options) => next::next(global, options),
        BoardCommand::Run(options) => run::run(global, options, report),
        BoardCommand::Claim(options) => claim::claim(global, options),
        BoardCommand::Renew(options) => renew::renew(global, options),
        BoardCommand::Release(options) => release::release(global, options),
        BoardCommand::Done(options) => done::done(global, options),
    }
}

/// The board of a command, and its caller.
struct BoardSurface {
    surface: Surface,
    caller: Caller,
    /// The directory of the board, if one was named.
    dir: Option<PathBuf>,
}

impl BoardSurface {
    fn open(global: &Global, terms: BoardTerms) -> Result<Self, Failure> {
        let surface = Surface::for_board(global)?;
        let caller = surface.caller(terms.owner)?;
        let dir = terms.dir;
        Ok(Self {
            surface,
            caller,
            dir,
        })
    }

    /// Opens the board for a command that takes no owner.
    fn open_unowned(global: &Global, dir: Option<PathBuf>) -> Result<Self, Failure> {
        let owner = None;
        Self::open(global, BoardTerms { dir, owner })
    }

    /// Calls an operation. A signal ends its waits.
    fn call<O>(&self, request: O) -> Result<O::Response, Failure>
    where
        O: Operation,
        Service: Handle<O>,
        Failure: From<O::Error>,
    {
        let answered = self.surface.call_on_files(request, &self.caller);
        answered.map_err(|failure| self.failure(failure))
    }

    /// Returns a failure with its remedy for this board.
    fn failure(&self, failure: Failure) -> Failure {
        failure::about(failure, self.dir.as_deref())
    }

    /// Answers with the response, or in words.
    fn answer(&self, response: &impl Serialize, in_words: &str) -> Result<ExitCode, Failure> {
        self.surface.answer(response, || said(in_words))
    }
}
