//! The checks, in order.

use std::path::Path;

use tenure::store::Examined;
use tenure::store_choice::Distrust;
use tenure::{Error, duration};
use tenure_core::store::Found;

use super::{exclusion, hooks, leftovers, sandbox, storage};
use crate::{Caller, Limit, Service};

/// Returns all checks. The later ones need a store that can be opened.
pub async fn all(service: &Service, caller: &Caller) -> Vec<Examined> {
    let mut checks = settings(service, caller);
    of_store(service, caller, &mut checks).await;
    checks
}

async fn of_store(service: &Service, caller: &Caller, checks: &mut Vec<Examined>) {
    // A server that is away is reported, not waited for.
    let opened = service.locks_within(caller, Limit::none(), None).await;
    let (scheme, path) = service.located().url.split_once(':').unwrap_or_default();
    let path = Path::new(path);
    let directory = match scheme {
        "file" => Some(path),
        "sqlite" => path.parent(),
        _ => None,
    };
    if let Some(directory) = directory {
        let trusted = service.settings(caller).trust_flock;
        checks.push(storage::directory(service, directory));
        checks.push(storage::file_system(service, directory, trusted));
    }
    let keeper = match opened {
        Ok(keeper) => keeper,
        Err(error @ Error::Corrupt { .. }) if scheme == "sqlite" => {
            return checks.push(damaged(path, &error));
        }
        Err(error) => return checks.push(service.failed("open", &error)),
    };
    match keeper.examine().await {
        Ok(examined) => checks.extend(examined),
        Err(error) => checks.push(service.failed("store", &error)),
    }
    let url = service.address_for_others(Some(&keeper));
    checks.push(exclusion::prove(service, caller, &keeper, url).await);
    checks.extend(sandbox::reach(service, caller, url));
    checks.extend(sandbox::worktrees(service));
    checks.extend(hooks::all(service, caller, &keeper, url).await);
    checks.push(leftovers::all(service, caller, &keeper).await);
    checks.push(slots(service));
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
fn slots(service: &Service) -> Examined {
    let detail = match service.slots_url() {
        Ok(url) => format!("counted in {url}, whatever the store"),
        Err(error) => format!("cannot be used: {error}"),
    };
    Found::good(detail).of("slots")
}

/// Reports the sources of settings, and the files that do not count.
fn settings(service: &Service, caller: &Caller) -> Vec<Examined> {
    let settings = service.settings(caller);
    let source = match &service.located().config_path {
        Some(path) => format!("from {} and the environment", path.display()),
        None if service.located().ignored.is_empty() => {
            "from the environment and the defaults; there is no tenure.toml".into()
        }
        None => "from the environment and the defaults".into(),
    };
    let wait = match service.located().config.wait {
        Some(wait) => duration::show(wait),
        None => "10m for run, 5s for all else".into(),
    };
    let retry = format!("{} attempts", settings.retry.attempts);
    let mut checks = vec![Found::good(format!("wait {wait}, {retry}, {source}")).of("settings")];
    for ignored in &service.located().ignored {
        let path = ignored.path.display();
        let remedy = match ignored.distrust {
            Distrust::WritableByAll => format!("chmod o-w {path}, if what it says is yours"),
            _ => format!("make it yours (chown), or remove {path}"),
        };
        checks.push(Found::bad(ignored.to_string(), remedy).of("settings"));
    }
    checks
}
