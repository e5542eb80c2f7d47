//! Files of others that a command of the shell has changed.
//!
//! A guard does not see what a command of the shell writes. So the files that other agents edit are looked at before it and after it. One that is
//! different by then is told to the agent: not a refusal, which would come too late, but a reason to look.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use tenure::{Keeper, Lease, LeaseState, Query, Result};

use super::shown;
use crate::agents::process::is_edit;
use crate::agents::state::Watched;

/// More files than this are not looked at.
const WATCHED_MAX: usize = 200;

/// Returns the files that agents edit, as they are now.
///
/// # Errors
///
/// Those of the store.
pub async fn look(keeper: &Keeper) -> Result<Vec<Watched>> {
    let query = Query::default()
        .with_prefix("file:")
        .with_limit(WATCHED_MAX)
        .held_only();
    let held = keeper.list(&query).await?.held;
    let is_held = |lease: &Lease| is_edit(lease) && lease.state != LeaseState::Expired;
    let watched = held.into_iter().filter(is_held).map(|lease: Lease| {
        let path = PathBuf::from(OsString::from_vec(lease.resource.raw_id()));
        Watched {
            stamp: stamp(&path),
            owner: lease.owner,
            path,
        }
    });
    Ok(watched.collect())
}

/// Returns what to tell an agent whose command has changed files of others, or `None` if it has not.
pub fn told(before: &[Watched]) -> Option<String> {
    let changed: Vec<String> = before
        .iter()
        .filter(|watched| stamp(&watched.path) != watched.stamp)
        .map(|watched| format!("{} (edited by {})", shown(&watched.path), watched.owner))
        .collect();
    if changed.is_empty() {
        return None;
    }
    Some(format!(
        "While this command ran, files changed that another agent is editing: {}. If the command wrote \
         them, look at the difference with git diff, and agree with that agent before you go on; \
         tenure ls file: shows who edits what.",
        changed.join(", ")
    ))
}

fn stamp(path: &PathBuf) -> Option<(u64, u64, i128)> {
    let found = fs::metadata(path).ok()?;
    let changed = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some((found.ino(), found.len(), changed))
}
