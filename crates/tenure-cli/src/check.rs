//! `tenure check`: checks whether a token is good.

use std::process::ExitCode;

use serde_json::json;
use tenure::Error;

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT};
use crate::identity::is_there;
use crate::report::Failure;
use crate::{output, runtime};

/// Compares a token with that of the newest exclusive grant. Any other token is a failure.
pub fn check(global: &Global, options: &cli::Check) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let cli::Check { resource, token } = options;
    // Without a store nothing is known of a token, and a question makes no store.
    if !is_there(&context.located.url) {
        let problem = format!("there is no store at {}", context.shown());
        return Err(Error::NotFound(problem).into());
    }
    runtime::block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        keeper.check(resource, *token).await?;
        let good = json!({ "resource": resource, "token": token, "good": true });
        let in_words = || output::text(&format!("token {token} of {resource} is good\n"));
        output::answer(global.json, &good, in_words)
    })
}
