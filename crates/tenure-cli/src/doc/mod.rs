//! `tenure doc`: JSON documents that many processes read and change.
//!
//! | file | what it does |
//! |---|---|
//! | `open_documents` | opens the documents of a command: settings, owner, wait |
//! | `read`, `follow`, `write`, `update`, `clean` | the commands, one each |
//! | `filter` | the command that a document is piped through |
//! | `bundle` | several documents as one, for that command |
//! | `token_check` | checks that the locks around a write are still held |
//! | `failure`, `text` | what people are told; documents as they are printed |
//!
//! The format, the locks and the replacement of a document are all in `tenure_files`. Nothing here
//! touches a document's file.

mod bundle;
mod clean;
mod failure;
mod filter;
mod follow;
mod open_documents;
mod read;
mod text;
mod token_check;
mod update;
mod write;

use std::process::ExitCode;

use crate::cli::{Doc, Global};
use crate::report::Failure;

/// Carries out one of them.
pub fn doc(global: &Global, command: Doc) -> Result<ExitCode, Failure> {
    match command {
        Doc::Read(options) => match options.follow {
            true => follow::follow(global, &options),
            false => read::read(global, &options),
        },
        Doc::Write(options) => write::write(global, &options),
        Doc::Update(options) => update::update(global, &options),
        Doc::Clean(options) => clean::clean(global, &options),
    }
}
