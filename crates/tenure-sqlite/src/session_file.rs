//! Proof of life: one file for each session, locked by the kernel for as long as any process that
//! inherited it lives.
//!
//! # Invariants
//!
//! - A session's file is locked before its row is written, and is unlinked, still locked, after its
//!   row was deleted.
//! - A path is believed only if, after the lock was granted, it still leads to the same inode.
//! - A process that only looks takes a shared lock: two that look do not count each other as alive.
//!
//! # Races
//!
//! A file is created and locked as a draft and then named after its session. A draft looks dead
//! before it is locked, and a sweep may remove it; the session then finds another inode, or none,
//! at its path, and begins again. A lock that is in the way then belongs to a process that looks,
//! for some microseconds.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::FileType;
use tenure_core::internal::OrCannot;
use tenure_core::{Error, Result, SessionId};
use tenure_os::clock;

use crate::platform::{self, FileIdentity, Share};

/// The number of waits for a lock that a look took, and the length of each.
const TRIES: u32 = 5000;
const PAUSE: Duration = Duration::from_micros(100);

/// The prefix of the name of a draft. No session has a name like that.
const DRAFT: &str = ".new-";

/// The largest number of live sessions that are counted.
const COUNT_MAX: usize = 1000;

/// The locked file of a session of this process.
#[derive(Debug)]
#[must_use = "the session is proved dead as soon as this is dropped"]
pub(crate) struct SessionFile {
    file: File,
    path: PathBuf,
    identity: FileIdentity,
    process: u32,
}

/// The proof of the kernel about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A process has its file locked.
    Alive,
    /// No process has its file locked, or the file is of another boot.
    Dead,
    /// Its file is gone or was replaced: nothing can be proved. Only break ends what it holds.
    Unknown,
}

impl SessionFile {
    /// Creates and locks the file of a new session.
    ///
    /// The file is created under another name and renamed when it is locked: under its own name the
    /// file of a live session is never unlocked.
    pub(crate) fn begin(directory: &Path, session: &SessionId) -> Result<SessionFile> {
        let path = directory.join(session.as_str());
        let draft = directory.join(format!("{DRAFT}{session}"));
        for _ in 0..TRIES {
            let Some(file) = create(directory, &draft)? else {
                // This session's draft was left half-way, or a sweep removes it right now.
                platform::unlink(&draft).or_cannot("remove", &draft)?;
                continue;
            };
            let Some(identity) = lock(&file, &draft)? else {
                continue;
            };
            match platform::rename(&draft, &path) {
                Ok(()) => {
                    return Ok(SessionFile {
                        file,
                        path,
                        identity,
                        process: std::process::id(),
                    });
                }
                // A sweep removed it between the lock and the rename.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !remove_if_dead(directory, session, || {})? {
                        let problem = format!("session {session} is in use by another process");
                        return Err(Error::Internal(problem));
                    }
                }
                Err(source) => return Err(Error::io("name", path, source)),
            }
        }
        let source = io::Error::from(io::ErrorKind::WouldBlock);
        Err(Error::io("lock", path, source))
    }

    /// Returns the identity of the file.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns true if its path still leads to it. If not, the session cannot be proved alive any
    /// more.
    pub(crate) fn is_in_place(&self) -> bool {
        let here = platform::status_at(&self.path);
        matches!(here, Ok(Some(here)) if here.identity == self.identity)
    }

    /// Returns a descriptor that keeps the session alive in a process that inherits it. It closes
    /// on exec.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd> {
        platform::duplicate(&self.file).or_cannot("duplicate", &self.path)
    }

    /// Removes the file, still locked. To be called when the row is gone. A file that cannot be
    /// removed is left to a sweep.
    pub(crate) fn end(&self) {
        // A forked child does not end the session of its parent.
        if self.process == std::process::id() && self.is_in_place() {
            let _ = platform::unlink(&self.path);
        }
    }
}

/// Creates the file, and its directory if that is missing. Returns `None` if the file exists.
fn create(directory: &Path, path: &Path) -> Result<Option<File>> {
    let created = match platform::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            platform::make_directory(directory).or_cannot("make", directory)?;
            platform::create_new(path)
        }
        created => created,
    };
    created.or_cannot("create", path)
}

/// Locks a new file. Returns `None` if it was removed meanwhile.
fn lock(file: &File, path: &Path) -> Result<Option<FileIdentity>> {
    for _ in 0..TRIES {
        let locked = platform::try_flock(file, Share::Exclusive);
        if !locked.or_cannot("lock", path)? {
            thread::sleep(PAUSE);
            continue;
        }
        let own = platform::status_of(file).or_cannot("look at", path)?;
        let here = platform::status_at(path).or_cannot("look at", path)?;
        let in_place = here.is_some_and(|here| here.identity == own.identity);
        return Ok(in_place.then_some(own.identity));
    }
    Ok(None)
}

/// Proves a session alive or dead, given what its row says about its file.
pub(crate) fn prove(
    directory: &Path,
    session: &SessionId,
    recorded: FileIdentity,
    boot_id: &str,
) -> Result<Proof> {
    if boot_id != clock::boot_id()? {
        return Ok(Proof::Dead);
    }
    let path = directory.join(session.as_str());
    Ok(match look(&path)? {
        FileState::Locked(identity) if identity == recorded => Proof::Alive,
        FileState::Free(identity, _file) if identity == recorded => Proof::Dead,
        _ => Proof::Unknown,
    })
}

/// Removes the file of a dead session. Returns false if the session is alive, true if there is no
/// file.
///
/// `rest` removes everything else that the session left, before the file: a process killed in
/// between leaves the file, by which the next sweep finds the rest. The proof of death lasts until
/// all of it is gone. Nothing of a live session is touched.
///
/// Two processes may do this at once: a session's id is never used again, so there is nothing else
/// that the second could remove.
pub(crate) fn remove_if_dead(
    directory: &Path,
    session: &SessionId,
    rest: impl FnOnce(),
) -> Result<bool> {
    let path = directory.join(session.as_str());
    match look(&path)? {
        // The shared lock lasts until the file is removed.
        FileState::Free(_, _file) => {
            rest();
            platform::unlink(&path).or_cannot("remove", &path)?;
            Ok(true)
        }
        FileState::Nothing => {
            rest();
            Ok(true)
        }
        FileState::Locked(_) | FileState::Other => Ok(false),
    }
}

/// Returns the number of sessions that have their file locked, counting no more than a thousand.
pub(crate) fn count_alive(directory: &Path) -> Result<usize> {
    let mut count = 0;
    for path in files(directory)? {
        if matches!(look(&path?)?, FileState::Locked(_)) {
            count += 1;
        }
        if count == COUNT_MAX {
            break;
        }
    }
    Ok(count)
}

/// Returns some sessions whose file is not locked: candidates for [`remove_if_dead`]. Drafts that
/// are not locked are removed on the way.
pub(crate) fn dead(directory: &Path, limit: usize) -> Result<Vec<SessionId>> {
    let mut dead = Vec::new();
    for path in files(directory)? {
        let path = path?;
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let session = SessionId::parse(name).ok();
        if session.is_none() && !name.starts_with(DRAFT) {
            continue;
        }
        if !matches!(look(&path)?, FileState::Free(..)) {
            continue;
        }
        match session {
            Some(session) => dead.push(session),
            None => {
                platform::unlink(&path).or_cannot("remove", &path)?;
            }
        }
        if dead.len() == limit {
            break;
        }
    }
    Ok(dead)
}

/// Returns the paths in the directory of session files, none before the first session.
pub(crate) fn files(directory: &Path) -> Result<impl Iterator<Item = Result<PathBuf>>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        entries => Some(entries.or_cannot("list", directory)?),
    };
    let entries = entries.into_iter().flatten();
    let path = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.path());
    Ok(entries.map(move |entry| path(entry).or_cannot("list", directory)))
}

/// The state of a session's file.
enum FileState {
    /// A process has it locked.
    Locked(FileIdentity),
    /// No process had it locked. It is locked shared for as long as this value lives.
    Free(
        FileIdentity,
        #[allow(dead_code, reason = "it holds the lock")] File,
    ),
    /// There is no file.
    Nothing,
    /// It cannot be looked at, or was replaced meanwhile.
    Other,
}

fn look(path: &Path) -> Result<FileState> {
    let opened = match platform::open_to_look(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(FileState::Other);
        }
        opened => opened.or_cannot("look at", path)?,
    };
    let Some(file) = opened else {
        return Ok(FileState::Nothing);
    };
    let own = platform::status_of(&file).or_cannot("look at", path)?;
    if own.kind != FileType::RegularFile {
        return Ok(FileState::Other);
    }
    if !platform::try_flock(&file, Share::Shared).or_cannot("look at", path)? {
        return Ok(FileState::Locked(own.identity));
    }
    match platform::status_at(path).or_cannot("look at", path)? {
        None => Ok(FileState::Nothing),
        Some(here) if here.identity == own.identity => Ok(FileState::Free(own.identity, file)),
        Some(_) => Ok(FileState::Other),
    }
}

#[cfg(test)]
mod tests;
