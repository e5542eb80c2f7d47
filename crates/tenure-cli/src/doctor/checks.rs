//! What is looked at, one after the other.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tenure::{Error, Keeper, Query, Result, duration};
use tenure_files::filesystem;

use super::{Check, exclusion, remedy};
use crate::context::{Context, WAIT_DEFAULT};
use crate::people::outlived;

/// More lock files than this make listings slow.
const LOCK_FILES_MANY: usize = 100_000;

/// All checks. The later ones need a store that can be opened.
pub fn all(context: &Context) -> Vec<Check> {
    let mut checks = settings(context);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let opened = match &runtime {
        Ok(runtime) => runtime.block_on(context.keeper(WAIT_DEFAULT)),
        Err(error) => Err(Error::Internal(format!("no runtime: {error}"))),
    };
    if let Some(directory) = context.located.url.strip_prefix("file:") {
        let trusted = context.settings(WAIT_DEFAULT).trust_flock;
        checks.push(of_directory(Path::new(directory)));
        checks.push(of_file_system(Path::new(directory), trusted));
    }
    match (opened, runtime) {
        (Ok(keeper), Ok(runtime)) => {
            checks.push(runtime.block_on(exclusion::prove(&keeper)));
            checks.push(runtime.block_on(leftovers(&keeper, &context.located.url)));
        }
        (Err(error), _) => checks.push(Check::failed("open", &error)),
        (_, Err(_)) => {}
    }
    checks
}

/// Where settings come from, and which files do not count.
fn settings(context: &Context) -> Vec<Check> {
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
    let mut checks = vec![Check::good(
        "settings",
        format!("wait {wait}, {retry}, {source}"),
    )];
    for ignored in &context.located.ignored {
        let remedy = format!(
            "make it yours (chown), or remove {}",
            ignored.path.display()
        );
        checks.push(Check::bad("settings", ignored.to_string(), remedy));
    }
    checks
}

fn of_directory(directory: &Path) -> Check {
    let name = "directory";
    let metadata = match fs::metadata(directory) {
        Ok(metadata) => metadata,
        Err(error) => return Check::failed(name, &Error::io("look at", directory, error)),
    };
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let detail = format!("{}, owner uid {uid}, mode {mode:04o}", directory.display());
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let locks = directory.join("locks");
    let place = if locks.is_dir() { &locks } else { directory };
    let flags = rustix::fs::AtFlags::EACCESS;
    if let Err(error) = rustix::fs::accessat(rustix::fs::CWD, place, access, flags) {
        let error = Error::io("write to", place, error);
        return Check::bad(name, format!("{detail}: {error}"), remedy(&error));
    }
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        let remedy = format!("chmod o-w {}", directory.display());
        return Check::bad(
            name,
            format!("{detail}: every user can remove its locks"),
            remedy,
        );
    }
    Check::good(name, detail)
}

fn of_file_system(directory: &Path, trust: bool) -> Check {
    let name = "file system";
    // A store that could not be created yet would be on the file system of what is above it.
    let existing = directory.ancestors().find(|path| path.exists());
    match filesystem::of(existing.unwrap_or(directory)) {
        Err(error) => Check::failed(name, &error),
        Ok(found) if found.trusted => {
            Check::good(name, format!("{}, flock is trusted", found.name))
        }
        Ok(found) if trust => {
            let detail = format!(
                "{}, flock is trusted because the settings say so",
                found.name
            );
            Check::good(name, detail)
        }
        Ok(found) => Check::bad(
            name,
            format!("{}, where flock is not known to hold", found.name),
            "choose a local directory with --store, or set TENURE_TRUST_FLOCK=1 if you know better",
        ),
    }
}

/// What is left of earlier work: lock files, and commands that outlived their `run`.
async fn leftovers(keeper: &Keeper, url: &str) -> Check {
    let name = "leftovers";
    let files = match url.strip_prefix("file:") {
        Some(directory) => count_files(&Path::new(directory).join("locks")),
        None => Ok(Files::default()),
    };
    let (files, (held, orphans)) = match (files, count_held(keeper).await) {
        (Ok(files), Ok(held)) => (files, held),
        (Err(error), _) | (_, Err(error)) => return Check::failed(name, &error),
    };
    let detail = format!(
        "{} ({} of them foreign), {} held, {orphans} by a command whose run is gone",
        counted(files.all, "lock file"),
        files.foreign,
        counted(held, "lease"),
    );
    if files.all > LOCK_FILES_MANY {
        let remedy = "use fewer names; when nothing is held, the directory may be removed whole";
        return Check::bad(name, format!("{detail}; listings are slow"), remedy);
    }
    if files.foreign > 0 {
        let remedy = "look at what is not a lock file in the directory `locks`, and move it away";
        return Check::bad(name, detail, remedy);
    }
    Check::good(name, detail)
}

/// `1 lease`, `2 leases`.
fn counted(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

#[derive(Default)]
struct Files {
    all: usize,
    foreign: usize,
}

fn count_files(locks: &Path) -> Result<Files> {
    let fail = |error| Error::io("list", locks, error);
    let mut files = Files::default();
    for entry in fs::read_dir(locks).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let is_file = entry.file_type().map_err(fail)?.is_file();
        let is_lock = is_file
            && entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "lock");
        files.all += 1;
        files.foreign += usize::from(!is_lock);
    }
    Ok(files)
}

async fn count_held(keeper: &Keeper) -> Result<(usize, usize)> {
    let mut query = Query::default();
    let (mut held, mut orphans) = (0, 0);
    loop {
        let page = keeper.list(&query).await?;
        held += page.held.len();
        orphans += outlived(keeper, &page.held).await.len();
        if page.next.is_none() {
            return Ok((held, orphans));
        }
        query.after = page.next;
    }
}
