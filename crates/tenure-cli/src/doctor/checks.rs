//! The checks, in order.

use std::path::Path;

use tenure::store_choice::Distrust;
use tenure::{Error, Examined, duration};
use tenure_core::store::Found;

use super::{exclusion, failed, hooks, leftovers, sandbox, storage};
use crate::context::{Context, WAIT_DEFAULT};
use crate::runtime;
use tenure_service::Limit;

/// Returns all checks. The later ones need a store that can be opened.
pub fn all(context: &Context) -> Vec<Examined> {
    let mut checks = settings(context);
    match runtime::start() {
        Ok(runtime) => runtime.block_on(of_store(context, &mut checks)),
        Err(error) => checks.push(failed("open", &error)),
    }
    checks
}

async fn of_store(context: &Context, checks: &mut Vec<Examined>) {
    // A server that is away is what is to be told, not what is to be waited for.
    let opened = context.keeper_within(WAIT_DEFAULT, Limit::none()).await;
    let (scheme, path) = context.located.url.split_once(':').unwrap_or_default();
    let path = Path::new(path);
    let directory = match scheme {
        "file" => Some(path),
        "sqlite" => path.parent(),
        _ => None,
    };
    if let Some(directory) = directory {
        let trusted = context.settings(WAIT_DEFAULT).trust_flock;
        checks.push(storage::directory(directory));
        checks.push(storage::file_system(directory, trusted));
    }
    let keeper = match opened {
        Ok(keeper) => keeper,
        Err(error @ Error::Corrupt { .. }) if scheme == "sqlite" => {
            return checks.push(damaged(path, &error));
        }
        Err(error) => return checks.push(failed("open", &error)),
    };
    match keeper.store().examine().await {
        Ok(examined) => checks.extend(examined),
        Err(error) => checks.push(failed("store", &error)),
    }
    let url = context.for_command(Some(&keeper));
    checks.push(exclusion::prove(&keeper, url).await);
    checks.extend(sandbox::reach(context, url));
    checks.extend(sandbox::worktrees(context));
    checks.extend(hooks::all(context, &keeper, url).await);
    checks.push(leftovers::all(&keeper).await);
    checks.push(slots(context));
}

/// Reports a database so damaged that it cannot be opened.
fn damaged(path: &Path, error: &Error) -> Examined {
    let path = path.display();
    let remedy = format!(
        "when nothing is held, move {path} away, and {path}-wal and {path}-shm with it: the next \
         use makes a new database. Leave {path}-anchor, which keeps tokens from going back"
    );
    Found::bad(error.to_string(), remedy).of("open")
}

/// Checks the store of the slots, which is only needed if slots are used.
fn slots(context: &Context) -> Examined {
    let detail = match context.slots_url() {
        Ok(url) => format!("counted in {url}, whatever the store"),
        Err(error) => format!("cannot be used: {error}"),
    };
    Found::good(detail).of("slots")
}

/// Reports the sources of settings, and the files that do not count.
fn settings(context: &Context) -> Vec<Examined> {
    let settings = context.settings(WAIT_DEFAULT);
    let source = match &context.located.config_path {
        Some(path) => format!("from {} and the environment", path.display()),
        None if context.located.ignored.is_empty() => {
            "from the environment and the defaults; there is no tenure.toml".into()
        }
        None => "from the environment and the defaults".into(),
    };
    let wait = match context.located.config.wait {
        Some(wait) => duration::show(wait),
        None => "10m for run, 5s for all else".into(),
    };
    let retry = format!("{} attempts", settings.retry.attempts);
    let mut checks = vec![Found::good(format!("wait {wait}, {retry}, {source}")).of("settings")];
    for ignored in &context.located.ignored {
        let path = ignored.path.display();
        let remedy = match ignored.distrust {
            Distrust::WritableByAll => format!("chmod o-w {path}, if what it says is yours"),
            _ => format!("make it yours (chown), or remove {path}"),
        };
        checks.push(Found::bad(ignored.to_string(), remedy).of("settings"));
    }
    checks
}
