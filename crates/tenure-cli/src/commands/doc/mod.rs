//! `tenure doc`: JSON documents that many processes read and change.
//!
//! | file | what it does |
//! |---|---|
//! | `read`, `follow`, `write`, `update`, `clean` | the commands |
//! | `filter` | the command that a document is piped through |
//! | `bundle` | several documents as one, for that command |
//! | `failure` | errors with remedies for people |

mod bundle;
mod clean;
mod failure;
mod filter;
mod follow;
mod read;
mod update;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure::Owner;
use tenure_api::doc::{Compat, Expect};
use tenure_api::text::{Span, TokenOf};

use crate::cli::Global;
use crate::cli::values::{bytes, parse_expect, parse_token_of, parse_wait, word_of};
use crate::report::Failure;
use crate::surface::asked_wait;

#[derive(Debug, Subcommand)]
pub enum Doc {
    /// Print a document, or several as they are at one moment
    #[command(after_long_help = read::HELP)]
    Read(read::Read),
    /// Put standard input in the place of a document
    #[command(after_long_help = write::HELP)]
    Write(write::Write),
    /// Pipe a document through a command, under its lock
    #[command(after_long_help = update::HELP)]
    Update(update::Update),
    /// Remove what crashed writers left
    #[command(after_long_help = clean::HELP)]
    Clean(clean::Clean),
}

/// The options for access to a document.
#[derive(Debug, Args)]
pub struct Access {
    #[command(flatten)]
    pub wait_arguments: WaitArguments,
    /// Take the lock of another kind of programs, too: proper-lockfile (Node)
    #[arg(long, value_name = "PROTOCOL", hide_possible_values = true, value_parser = word_of::<Compat>(["proper-lockfile"]))]
    pub compat: Option<Compat>,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
}

/// The options for the wait for a document.
#[derive(Debug, Args)]
pub struct WaitArguments {
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 5s; 15s with
    /// --compat)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(long)]
    pub no_wait: bool,
}

impl Access {
    fn wait(&self) -> Option<Span> {
        asked_wait(self.wait_arguments.no_wait, self.wait_arguments.wait)
    }
}

/// The conditions of a write.
#[derive(Debug, Args)]
pub struct WriteTerms {
    /// Refuse unless it is at this version, as `read --json` shows it, or absent
    #[arg(long, value_name = "VERSION|absent", value_parser = parse_expect)]
    pub expect: Option<Expect>,
    /// The lock under which it is written: refuse unless the store says that N is its newest token
    #[arg(long, value_name = "RESOURCE#N", value_parser = bytes(parse_token_of))]
    pub token: Option<TokenOf>,
    /// Set aside what the document remembers: another lock, or a token that was never granted
    #[arg(long, requires = "token")]
    pub rebind: bool,
}

/// Shown after the commands.
pub const HELP: &str = "\
Examples:
  echo '{\"n\": 0}' | tenure doc write counter.json
  tenure doc update counter.json -- jq '.n += 1'
  tenure doc read counter.json --json          its version, and the document
  tenure doc read --follow counter.json        each time it changes

A document is a JSON file. A reader sees it whole, before a change or after it;
changes happen one after the other, and are on disk when the command ends. Its
lock is the file .NAME.lock beside it, which stays there. A new document has
mode 0600; one that is there keeps its mode and owner.";

/// Carries out one of the commands of `doc`.
pub fn doc(global: &Global, command: Doc) -> Result<ExitCode, Failure> {
    match command {
        Doc::Read(options) => match options.follow {
            true => follow::follow(global, options),
            false => read::read(global, options),
        },
        Doc::Write(options) => write::write(global, options),
        Doc::Update(options) => update::update(global, options),
        Doc::Clean(options) => clean::clean(global, options),
    }
}

/// Returns the name of a file as JSON holds it.
fn name(file: &Path) -> Result<&str, Failure> {
    file.to_str().ok_or_else(|| {
        let problem = format!(
            "{}: a name that is not UTF-8 fits in no JSON",
            file.display()
        );
        tenure::Error::BadInput(problem).into()
    })
}

/// Returns the names of several files as JSON holds them, or none for a single file.
fn names(files: &[PathBuf]) -> Result<Vec<&str>, Failure> {
    match files {
        [_] => Ok(Vec::new()),
        files => files.iter().map(|file| name(file)).collect(),
    }
}
