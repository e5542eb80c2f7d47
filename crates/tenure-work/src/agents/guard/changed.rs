//! Files of others that a command of the shell has changed.
//!
//! A guard does not see what a command of the shell writes. The files that other agents edit are
//! therefore looked at before it and after it. If one differs then, the agent is told: not a
//! refusal, which would come too late, but a reason to look.
//!
//! A snapshot from before a command is kept in a file for that one call of the tool, as a session
//! may run several at once. It is removed after the command, or a day later if no hook learned of
//! its end. Nothing else depends on it: if it is lost or torn, the agent is told nothing.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{Error, Keeper, Lease, LeaseState, Owner, Query, Result, Timestamp};
use tenure_files::document::Version;
use tenure_os::clock;

use super::shown;
use crate::agents::event::HookEvent;
use crate::agents::processor::is_edit;

/// The largest number of files that are looked at.
const WATCHED_MAX: usize = 2000;
/// The time after which a snapshot is removed, as no hook learned of its command's end.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A file that an agent edits, as it was before a command of the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The path of the file.
    path: PathBuf,
    /// The agent that edits it.
    owner: Owner,
    /// The inode, length and time of the last change; `None` if there was no file.
    stamp: Option<(u64, u64, i128)>,
}

/// Returns the files that agents edit, as they are now.
///
/// # Errors
///
/// Errors of the store.
pub async fn look(keeper: &Keeper) -> Result<Vec<Watched>> {
    let mut query = Query::default()
        .with_prefix("file:")
        .with_limit(WATCHED_MAX)
        .held_only();
    let mut watched = Vec::new();
    while watched.len() < WATCHED_MAX {
        let page = keeper.list(&query).await?;
        let is_held = |lease: &Lease| is_edit(lease) && lease.state != LeaseState::Expired;
        watched.extend(page.held.into_iter().filter(is_held).map(|lease: Lease| {
            let path = PathBuf::from(OsString::from_vec(lease.resource.raw_id()));
            Watched {
                stamp: stamp(&path),
                owner: lease.owner,
                path,
            }
        }));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    Ok(watched)
}

/// Returns the message for an agent whose command has changed files of others, or `None` if it has
/// not.
pub fn told(before: &[Watched], owner: &Owner) -> Option<String> {
    let others = before.iter().filter(|watched| watched.owner != *owner);
    let changed: Vec<String> = others
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

fn stamp(path: &Path) -> Option<(u64, u64, i128)> {
    let found = fs::metadata(path).ok()?;
    let changed = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some((found.ino(), found.len(), changed))
}

/// The file with the state of watched files before one call of a tool.
pub struct Snapshot {
    directory: PathBuf,
    path: PathBuf,
}

impl Snapshot {
    /// Returns the snapshot for the call of an event, in the user's state directory. Calls without
    /// an id of their own are told apart by their command.
    pub fn new(state_directory: &Path, event: &HookEvent) -> Self {
        let id = event.text(&["tool_use_id", "toolUseId", "tool_call_id", "call_id"]);
        let command = || event.shell_command().unwrap_or_default();
        let id = id.map_or_else(command, str::to_owned);
        let name = Version::of(format!("{}\n{id}", event.session).as_bytes()).to_string();
        let directory = state_directory.join("watched");
        Self {
            path: directory.join(format!("{}.json", &name[..32])),
            directory,
        }
    }

    /// Writes the files as they were seen.
    ///
    /// # Errors
    ///
    /// `Io` if the file cannot be written.
    pub fn write(&self, watched: &[Watched]) -> Result<()> {
        let failed = |source| Error::io("write", &self.path, source);
        self.remove().map_err(failed)?;
        if watched.is_empty() {
            return Ok(());
        }
        crate::agents::make_directory(&self.directory)?;
        self.remove_old().map_err(failed)?;
        let text =
            serde_json::to_vec(watched).map_err(|error| Error::Internal(error.to_string()))?;
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.path);
        file.and_then(|mut file| file.write_all(&text))
            .map_err(failed)
    }

    /// Returns the files as they were seen, and removes the snapshot.
    pub fn take(&self) -> Vec<Watched> {
        let text = fs::read(&self.path).unwrap_or_default();
        let _ = self.remove();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the snapshots of commands whose end no hook learned of.
    fn remove_old(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let modified = entry
                .metadata()
                .map(|found| Timestamp::from_millis(found.mtime() * 1000));
            if modified.is_ok_and(|modified| clock::now().since(modified) > KEPT) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    fn snapshot(state: &Path, more: &serde_json::Value) -> Snapshot {
        let mut body =
            json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        let event = HookEvent::parse(body.to_string().as_bytes(), None, None).unwrap();
        Snapshot::new(state, &event)
    }

    fn watched(path: &str) -> Vec<Watched> {
        let owner = "agent:x".parse().unwrap();
        vec![Watched {
            path: path.into(),
            owner,
            stamp: Some((1, 2, 3)),
        }]
    }

    #[test]
    fn what_was_seen_before_a_call_is_given_once_and_to_that_call_alone() {
        let state = tempfile::tempdir().unwrap();
        let of = |id: &str| snapshot(state.path(), &json!({"tool_use_id": id}));
        of("one").write(&watched("/a")).unwrap();
        of("two").write(&watched("/b")).unwrap();
        let mode = fs::metadata(&of("one").path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(of("one").take(), watched("/a"));
        assert_eq!(of("one").take(), []);
        assert_eq!(of("two").take(), watched("/b"));
        // Without an id the command tells calls apart.
        let by = |line: &str| snapshot(state.path(), &json!({"tool_input": {"command": line}}));
        by("ls").write(&watched("/a")).unwrap();
        assert_eq!(by("cat").take(), []);
        by("ls").write(&[]).unwrap();
        assert_eq!(by("ls").take(), [], "what it began with counts");
    }

    #[test]
    fn what_no_hook_asked_for_is_removed_after_a_day() {
        let state = tempfile::tempdir().unwrap();
        let of = |id: &str| snapshot(state.path(), &json!({"tool_use_id": id}));
        of("old").write(&watched("/a")).unwrap();
        let file = OpenOptions::new()
            .write(true)
            .open(&of("old").path)
            .unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * KEPT;
        file.set_modified(long_ago).unwrap();
        of("new").write(&watched("/b")).unwrap();
        assert_eq!(of("old").take(), []);
        assert_eq!(of("new").take(), watched("/b"));
    }
}
