//! Files, which one agent edits at a time.
//!
//! # Steps, before an edit
//!
//! 1. The files are found: as the tool names them, relative to the agent's directory, links followed.
//! 2. Who holds `file:PATH` is looked up for each. One that another owner holds: the edit is denied, and nothing is taken. A lease whose
//!    time is over counts for nothing.
//! 3. What nobody holds is taken as a set, all or none, without waiting. Another agent that came in between: denied, nothing taken.
//! 4. What the agent holds already gets its full time again.
//!
//! A lease lasts for ten minutes after the last edit of its file. A crash between 3 and 4 leaves leases that run out by themselves.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::request::PURPOSE_BYTES_MAX;
use tenure::{
    Class, Error, Keeper, Lease, LeaseState, LeaseTerms, LockSet, Mode, Options, Owner, Resource,
    Result, Session,
};

use crate::agents::event::HookEvent;
use crate::agents::process::is_edit;

/// The time that a file is held after its last edit.
pub const EDIT_TTL: Duration = Duration::from_secs(10 * 60);
/// An edit of more files is not guarded.
const FILES_MAX: usize = 200;

/// A longer chain of links is not followed.
const LINKS_MAX: usize = 40;

/// Whether an edit may go on.
#[derive(Debug)]
pub enum EditDecision {
    /// It may: the files are held now.
    Granted,
    /// It may not: another holds this lease.
    Denied(Box<Lease>),
}

/// Returns the files that a tool is about to edit, or nothing for a tool that edits none.
pub fn edited_files(event: &HookEvent) -> Vec<PathBuf> {
    let tool: String = event.tool().unwrap_or_default().to_ascii_lowercase();
    let input = event.tool_input();
    let text = |name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
    let named = match tool.as_str() {
        "edit" | "write" | "multiedit" | "notebookedit" | "create" | "write_file" | "replace"
        | "edit_file" | "str_replace_editor" | "search_replace" | "delete_file" | "strreplace"
        | "editnotebook" | "delete" | "str_replace" | "insert" => {
            let names = [
                "file_path",
                "notebook_path",
                "path",
                "absolute_path",
                "target_file",
                "target_notebook",
            ];
            names
                .iter()
                .find_map(|name| text(name))
                .into_iter()
                .collect()
        }
        "apply_patch" | "applypatch" => {
            let patch = ["command", "input", "patch"]
                .iter()
                .find_map(|name| text(name));
            let patch = patch.or_else(|| input.as_str().map(str::to_owned));
            patched_files(&patch.unwrap_or_default())
        }
        // A patch that is given to the shell.
        _ => match event.shell_command() {
            Some(line) if line.starts_with("apply_patch") => patched_files(&line),
            _ => Vec::new(),
        },
    };
    let directory = event.cwd();
    let mut files: Vec<PathBuf> = named
        .into_iter()
        .filter_map(|name| resolved(directory.as_deref(), Path::new(&name)))
        .collect();
    files.sort();
    files.dedup();
    files
}

/// Returns the files that a patch names.
fn patched_files(patch: &str) -> Vec<String> {
    const MARKS: [&str; 4] = [
        "*** Update File: ",
        "*** Add File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    let named = |line: &str| {
        MARKS
            .iter()
            .find_map(|mark| line.strip_prefix(mark).map(str::to_owned))
    };
    patch
        .lines()
        .filter_map(|line| named(line.trim_end()))
        .collect()
}

/// Returns a path as the tool will find it: absolute, without links, as far as it exists.
fn resolved(directory: Option<&Path>, name: &Path) -> Option<PathBuf> {
    let path = match name.is_absolute() {
        true => name.to_owned(),
        false => directory?.join(name),
    };
    let path = target_of(path);
    for above in path.ancestors() {
        if let Ok(found) = fs::canonicalize(above) {
            let rest = path.strip_prefix(above).ok()?;
            // A path that is not there yet has no links: `..` in it goes up by name.
            return Some(match rest.as_os_str().is_empty() {
                true => found,
                false => plain(&found.join(rest)),
            });
        }
    }
    None
}

/// Follows a link that leads to nothing yet: who writes to it makes the file that it names.
fn target_of(mut path: PathBuf) -> PathBuf {
    for _ in 0..LINKS_MAX {
        match (path.exists(), fs::read_link(&path)) {
            (false, Ok(target)) => path = path.parent().unwrap_or(&path).join(target),
            _ => break,
        }
    }
    path
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the lock on a file.
fn resource_of(path: &Path) -> Result<Resource> {
    Resource::new("file", path.as_os_str().as_bytes())
        .map_err(|error| Error::BadInput(error.to_string()))
}

/// Acquires the files for the owner of the session: all of them, or none.
///
/// # Errors
///
/// Errors of the store, and `BadInput` for more files than are guarded.
pub async fn acquire(
    keeper: &Keeper,
    session: &Session,
    files: &[PathBuf],
    purpose: &str,
) -> Result<EditDecision> {
    if files.len() > FILES_MAX {
        let problem = format!("an edit of more than {FILES_MAX} files is not guarded");
        return Err(Error::BadInput(problem));
    }
    let owner = session.owner();
    let (mut own, mut free) = (Vec::new(), Vec::new());
    for file in files {
        let resource = resource_of(file)?;
        let holders = keeper.holders(&resource).await?.into_iter();
        let mut holders = holders.filter(|lease| lease.state != LeaseState::Expired);
        match holders.next() {
            Some(lease) if lease.owner == *owner => own.push(lease),
            Some(lease) => return Ok(EditDecision::Denied(Box::new(lease))),
            None => free.push((resource, Mode::Write)),
        }
    }
    if !free.is_empty() {
        let set = LockSet::new(&keeper.settings().ranking, free);
        let options = Options::default()
            .with_wait(Duration::ZERO)
            .with_purpose(kept_purpose(purpose))
            .with_metadata(json!({ "guard": "edit" }));
        let terms = LeaseTerms::default().with_ttl(EDIT_TTL);
        match keeper.lock(session, &set, &terms, &options).await {
            Ok(_) => {}
            Err(error) if error.class() == Class::Busy => {
                return denied_by(keeper, &set, owner, error).await;
            }
            Err(error) => return Err(error),
        }
    }
    for lease in own.iter().filter(|lease| is_edit(lease)) {
        keeper
            .renew(&lease.lease, Some(EDIT_TTL), Some(owner))
            .await?;
    }
    Ok(EditDecision::Granted)
}

/// Returns what an agent is asked to do as the purpose of a lease, whatever was typed: on one line, and cut to the limit.
fn kept_purpose(task: &str) -> String {
    let purpose = task.replace(char::is_control, " ");
    purpose[..purpose.floor_char_boundary(PURPOSE_BYTES_MAX)].to_owned()
}

/// Returns who came in between. Fails if that one is gone again.
async fn denied_by(
    keeper: &Keeper,
    set: &LockSet,
    owner: &Owner,
    error: Error,
) -> Result<EditDecision> {
    let mut own = 0;
    for (resource, _) in set.iter() {
        let holders = keeper.holders(resource).await?;
        own += usize::from(holders.iter().any(|lease| lease.owner == *owner));
        if let Some(lease) = holders.into_iter().find(|lease| lease.owner != *owner) {
            return Ok(EditDecision::Denied(Box::new(lease)));
        }
    }
    // Another hook of the same agent was faster.
    match own == set.iter().count() {
        true => Ok(EditDecision::Granted),
        false => Err(error),
    }
}

/// Releases the files of an owner: at the end of a turn, where that is set.
///
/// # Errors
///
/// Errors of the store.
pub async fn release(keeper: &Keeper, owner: &Owner) -> Result<()> {
    let mut query = tenure::Query::default()
        .with_prefix("file:")
        .with_owner(owner.clone())
        .held_only();
    loop {
        let page = keeper.list(&query).await?;
        for lease in page.held.iter().filter(|lease| is_edit(lease)) {
            match keeper.release(&lease.lease, Some(owner)).await {
                Ok(_) | Err(Error::LeaseOver { .. } | Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn event(tool: &str, input: Value, cwd: &Path) -> HookEvent {
        let body = json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": cwd, "tool_name": tool, "tool_input": input});
        HookEvent::parse(body.to_string().as_bytes(), None, None).unwrap()
    }

    #[test]
    fn files_are_found_as_the_tool_will_find_them() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().canonicalize().unwrap();
        fs::create_dir(here.join("real")).unwrap();
        fs::write(here.join("real/a"), "").unwrap();
        symlink("real", here.join("link")).unwrap();
        let of = |tool: &str, input: Value| edited_files(&event(tool, input, &here));
        let a = [here.join("real/a")];
        assert_eq!(of("Edit", json!({"file_path": here.join("link/a")})), a);
        assert_eq!(of("Write", json!({"file_path": "real/../link/a"})), a);
        assert_eq!(of("replace", json!({"file_path": "./link/a"})), a);
        let new = [here.join("real/new/b")];
        assert_eq!(
            of("NotebookEdit", json!({"notebook_path": "link/new/x/../b"})),
            new
        );
        symlink("new/b", here.join("real/dangling")).unwrap();
        assert_eq!(of("Write", json!({"file_path": "link/dangling"})), new);
        for (tool, field) in [
            ("StrReplace", "path"),
            ("EditNotebook", "target_notebook"),
            ("Delete", "path"),
            ("str_replace", "path"),
            ("insert", "path"),
        ] {
            assert_eq!(of(tool, json!({ field: "real/a" })), a, "{tool}");
        }
        assert!(of("Read", json!({"file_path": "real/a"})).is_empty());
        assert!(of("Bash", json!({"command": "rm real/a"})).is_empty());
    }

    #[test]
    fn a_patch_names_all_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().canonicalize().unwrap();
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Move to: c.rs\n*** Add File: b.rs\n+*** Add File: no\n*** Delete File: d.rs\n*** End Patch\n";
        let wanted = ["a.rs", "b.rs", "c.rs", "d.rs"].map(|name| here.join(name));
        for input in [
            json!({"command": patch}),
            json!({"input": patch}),
            json!(patch),
        ] {
            assert_eq!(edited_files(&event("apply_patch", input, &here)), wanted);
        }
        let words = json!({"command": ["apply_patch", patch]});
        assert_eq!(edited_files(&event("shell", words, &here)), wanted);
    }
}
