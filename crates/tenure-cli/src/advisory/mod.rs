//! `tenure advisory`: PostgreSQL's own locks, which other programs take, too.

mod ending;
mod ls;
mod run;

use std::process::ExitCode;

use tenure::{Error, Result};
use tenure_postgres::{AdvisoryLocks, Settings};

use crate::cli::{Advisory, Global};
use crate::context::Context;
use crate::identity::is_server;
use crate::report::{Failure, Report};
use crate::runtime;

/// Carries out one of its commands.
pub fn advisory(global: &Global, command: Advisory, report: Report) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    runtime::block_on(async {
        let locks = open(&context).await?;
        match command {
            Advisory::Ls => ls::ls(&locks, global.json).await,
            Advisory::Run(options) => run::run(&context, &locks, options, report).await,
        }
    })
}

/// One lock takes one connection.
async fn open(context: &Context) -> Result<AdvisoryLocks> {
    let url = &context.located.url;
    if !is_server(url) {
        return Err(Error::Configuration {
            problem: format!(
                "{} has no advisory locks ({}): they are PostgreSQL's",
                context.shown(),
                context.located.why
            ),
            remedy: "name a database with --store or TENURE_STORE, such as \
                     postgres://user@host/database; elsewhere use: tenure run"
                .into(),
        });
    }
    let settings = Settings {
        pool: 1,
        overflow: 0,
        ..Settings::default()
    };
    let opened = AdvisoryLocks::open(url, settings).await;
    opened.map_err(|error| match error {
        Error::BadInput(problem) => Error::Configuration {
            problem: format!("bad store: {problem}"),
            remedy: "an address is like postgres://user:password@host:5432/database".into(),
        },
        error => error,
    })
}
