//! The words of `doc`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use tenure::Owner;
use tenure_files::document::Expect;

use super::values::{TokenOf, bytes, parse_document, parse_expect, parse_wait};
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Doc {
    /// Print a document, or several as they are at one moment
    #[command(after_long_help = help::DOC_READ_LONG)]
    Read(DocRead),
    /// Put standard input in the place of a document
    #[command(after_long_help = help::DOC_WRITE_LONG)]
    Write(DocWrite),
    /// Pipe a document through a command, under its lock
    #[command(after_long_help = help::DOC_UPDATE_LONG)]
    Update(DocUpdate),
    /// Remove what crashed writers left
    #[command(after_long_help = help::DOC_CLEAN_LONG)]
    Clean(DocClean),
}

#[derive(Debug, Args)]
pub struct DocRead {
    /// Print it again each time it changes; for one document
    #[arg(long)]
    pub follow: bool,
    /// Make a document that is missing, with this in it
    #[arg(long, value_name = "JSON", value_parser = parse_document)]
    pub create: Option<String>,
    #[command(flatten)]
    pub access: Access,
    /// The documents
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DocWrite {
    #[command(flatten)]
    pub terms: WriteTerms,
    #[command(flatten)]
    pub access: Access,
    /// The document
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct DocUpdate {
    #[command(flatten)]
    pub terms: WriteTerms,
    /// What the command gets for a document that is missing
    #[arg(long, value_name = "JSON", value_parser = parse_document)]
    pub create: Option<String>,
    #[command(flatten)]
    pub access: Access,
    /// The documents; several change all or none
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The command that gets the document and prints the new one, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct DocClean {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub access: Access,
    /// The document
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
}

/// The options for the wait for a document.
#[derive(Debug, Args)]
pub struct WaitArguments {
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 5s; 15s with --compat)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(long)]
    pub no_wait: bool,
}

/// The options for access to a document.
#[derive(Debug, Args)]
pub struct Access {
    #[command(flatten)]
    pub wait_arguments: WaitArguments,
    /// Take the lock of another kind of programs, too: proper-lockfile (Node)
    #[arg(long, value_name = "PROTOCOL", hide_possible_values = true)]
    pub compat: Option<Compat>,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
}

/// The conditions of a write.
#[derive(Debug, Args)]
pub struct WriteTerms {
    /// Refuse unless it is at this version, as `read --json` shows it, or absent
    #[arg(long, value_name = "VERSION|absent", value_parser = parse_expect)]
    pub expect: Option<Expect>,
    /// The lock under which it is written: refuse unless the store says that N is its newest token
    #[arg(long, value_name = "RESOURCE#N", value_parser = bytes(TokenOf::parse))]
    pub token: Option<TokenOf>,
    /// Set aside what the document remembers: another lock, or a token that was never granted
    #[arg(long, requires = "token")]
    pub rebind: bool,
}

/// Another protocol that is spoken, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    ProperLockfile,
}
