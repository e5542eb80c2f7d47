//! What is left of earlier work, in stores of every kind.

use std::fs;
use std::path::Path;

use tenure::{Error, Keeper, LeaseState, Query, Recovery, Result};

use super::Check;
use crate::context::owner;
use crate::people::outlived;

/// More lock files than this make listings slow.
const LOCK_FILES_MANY: usize = 100_000;
const NAME: &str = "leftovers";

/// Lock files, and commands that outlived their `run`.
pub async fn of_files(keeper: &Keeper, directory: &Path) -> Check {
    match try_files(keeper, directory).await {
        Ok(check) => check,
        Err(error) => Check::failed(NAME, &error),
    }
}

async fn try_files(keeper: &Keeper, directory: &Path) -> Result<Check> {
    let files = count_files(&directory.join("locks"))?;
    let counts = Counts::of(keeper).await?;
    let detail = format!(
        "{} ({} of them foreign), {}",
        counted(files.all, "lock file"),
        files.foreign,
        counts.in_words(),
    );
    if files.all > LOCK_FILES_MANY {
        let remedy = "use fewer names; when nothing is held, the directory may be removed whole";
        let detail = format!("{detail}; listings are slow");
        return Ok(Check::bad(NAME, detail, remedy));
    }
    if files.foreign > 0 {
        let remedy = "look at what is not a lock file in the directory `locks`, and move it away";
        return Ok(Check::bad(NAME, detail, remedy));
    }
    Ok(Check::good(NAME, detail))
}

/// Leases that nobody can prove or that nobody needs, waiters, and commands that outlived their
/// `run`.
pub async fn of_leases(keeper: &Keeper) -> Check {
    match try_leases(keeper).await {
        Ok(check) => check,
        Err(error) => Check::failed(NAME, &error),
    }
}

async fn try_leases(keeper: &Keeper) -> Result<Check> {
    let counts = Counts::of(keeper).await?;
    let actor = owner(None)?;
    let found = keeper.recover(&actor, Recovery::DryRun, |_| {});
    let stale = found.await?.iter().filter(|f| f.recoverable).count();
    let mut detail = format!(
        "{}, {}, {}",
        counts.in_words(),
        counted(counts.waiting, "waiter"),
        counted(stale, "stale lease"),
    );
    if stale > 0 {
        detail.push_str(" (tenure recover ends what is stale)");
    }
    if counts.unknown > 0 {
        let detail = format!(
            "{detail}; {} of a session that is neither proved alive nor dead",
            counted(counts.unknown, "lease")
        );
        let remedy = "see STATE in tenure ls; if its holder is gone, end it with: \
                      tenure break LEASE --reason TEXT";
        return Ok(Check::bad(NAME, detail, remedy));
    }
    Ok(Check::good(NAME, detail))
}

/// What is held, and how.
#[derive(Default)]
struct Counts {
    held: usize,
    orphans: usize,
    unknown: usize,
    waiting: usize,
}

impl Counts {
    async fn of(keeper: &Keeper) -> Result<Self> {
        let mut query = Query::default();
        let mut counts = Self::default();
        loop {
            let page = keeper.list(&query).await?;
            counts.held += page.held.len();
            counts.orphans += outlived(keeper, &page.held).await.len();
            let unknown = page.held.iter().filter(|l| l.state == LeaseState::Unknown);
            counts.unknown += unknown.count();
            counts.waiting += page.waiting.map_or(0, |waiting| waiting.len());
            if page.next.is_none() {
                return Ok(counts);
            }
            query.after = page.next;
        }
    }

    fn in_words(&self) -> String {
        format!(
            "{} held, {} by a command whose run is gone",
            counted(self.held, "lease"),
            self.orphans
        )
    }
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
