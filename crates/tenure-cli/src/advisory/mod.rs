//! `tenure advisory`: PostgreSQL's own locks, which other programs take, too.

mod held;
mod ls;
mod outer;
mod run;

use std::process::ExitCode;
use std::time::Duration;

use tenure::{Error, Result};
use tenure_postgres::advisory::{AdvisoryLocks, Settings};
use tenure_run::Watchdog;

use crate::cli::{Advisory, Global};
use crate::context::Context;
use crate::opening::open_and_tell;
use crate::report::{Failure, Report};
use crate::runtime;
use tenure_service::store_identity::is_server;

/// The longest wait for a server when only looking, and for an answer.
const SERVER_WAIT: Duration = Duration::from_secs(5);

/// Carries out one of its commands.
pub fn advisory(global: &Global, command: Advisory, report: Report) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    match command {
        Advisory::Ls => runtime::block_on(async {
            ls::ls(&open(&context, SERVER_WAIT).await?, global.json).await
        }),
        Advisory::Run(options) => {
            let watchdog = Watchdog::start()?;
            runtime::block_on(run::run(&context, options, watchdog, report))
        }
    }
}

/// Opens the advisory locks with one connection. Waits for a server that is away.
async fn open(context: &Context, wait: Duration) -> Result<AdvisoryLocks> {
    let url = &context.located.url;
    if !is_server(url) {
        return Err(Error::configuration(
            format!(
                "{} has no advisory locks ({}): they are PostgreSQL's",
                context.shown(),
                context.located.why
            ),
            "name a database with --store or TENURE_STORE, such as \
                     postgres://user@host/database; elsewhere use: tenure run",
        ));
    }
    let settings = Settings::default()
        .with_pool(1)
        .with_overflow(0)
        .with_wait(SERVER_WAIT)
        .with_open(wait);
    let opened = open_and_tell(AdvisoryLocks::open(url, settings), &context.shown()).await;
    opened.map_err(|error| match error {
        Error::BadInput(problem) => Error::configuration(
            format!("bad store: {problem}"),
            "an address is like postgres://user:password@host:5432/database",
        ),
        error => error,
    })
}
