//! Proof of life: one file for each session, locked by the kernel for as long as anyone who
//! inherited it lives.
//!
//! # Invariants
//!
//! - A session's file is locked before its row is written, and is unlinked, still locked, after its
//!   row was deleted.
//! - A path is believed only if, after the lock was granted, it still leads to the same inode.
//! - Whoever only looks locks shared: two who look do not take each other for alive.
//!
//! # Claims
//!
//! The number with which a session was granted what it holds is held in the kernel, too: the
//! bytes of its file up to that one are locked. So anyone can ask whether someone alive was
//! granted something that a database knows nothing of (`anchor`). Like the proof of life, a
//! claim is inherited with the file, and ends with the last who has it.
//!
//! # Races
//!
//! A file is made and locked as a draft and then named after its session. A draft looks dead
//! before its lock, and may be removed by whoever clears up; the session then finds another
//! inode, or none, at its path, and begins again. A lock that is in the way then is that of someone
//! who looks, for some microseconds.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::FileType;
use tenure_core::{Error, Result, SessionId, Token};
use tenure_files::clock;

use crate::platform::{self, Identity, Share};

/// How often those who look are waited out, and for how long each time.
const TRIES: u32 = 5000;
const PAUSE: Duration = Duration::from_micros(100);

/// What the name of a file begins with that has not got its session's yet. No session is named so.
const DRAFT: &str = ".new-";

/// More live sessions than this are not counted.
const COUNT_MAX: usize = 1000;

/// The locked file of a session of this process.
#[derive(Debug)]
#[must_use = "the session is proved dead as soon as this is dropped"]
pub(crate) struct SessionFile {
    file: File,
    path: PathBuf,
    identity: Identity,
    process: u32,
}

/// What the kernel says of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Someone has its file locked.
    Alive,
    /// Nobody has, or it is of another boot.
    Dead,
    /// Its file is gone, or is another: nothing can be proved. Only break ends what it holds.
    Unknown,
}

impl SessionFile {
    /// Makes and locks the file of a new session.
    ///
    /// It is made under another name and gets its own when it is locked: under its own name no
    /// file of a live session is ever seen unlocked.
    pub(crate) fn begin(directory: &Path, session: &SessionId) -> Result<SessionFile> {
        let path = directory.join(session.as_str());
        let draft = directory.join(format!("{DRAFT}{session}"));
        for _ in 0..TRIES {
            let Some(file) = create(directory, &draft)? else {
                // Of the same session, killed half-way; or cleared up at this moment.
                let removed = platform::unlink(&draft);
                removed.map_err(|source| Error::io("remove", &draft, source))?;
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
                // Cleared up between its lock and its name.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !bury(directory, session, || {})? {
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

    /// The device its file is on.
    pub(crate) fn device(&self) -> u64 {
        self.identity.device
    }

    /// The number of its file there.
    pub(crate) fn inode(&self) -> u64 {
        self.identity.inode
    }

    /// Whether its path still leads to it. If not, nobody can prove the session alive any more.
    pub(crate) fn is_in_place(&self) -> bool {
        let here = platform::standing_at(&self.path);
        matches!(here, Ok(Some(here)) if here.identity == self.identity)
    }

    /// Claims what was granted with a number up to this one.
    pub(crate) fn claim(&self, number: Token) -> Result<()> {
        let claimed = platform::try_lock_before(&self.file, number.get().saturating_add(1));
        let failed = |source| Error::io("lock", &self.path, source);
        match claimed.map_err(failed)? {
            true => Ok(()),
            false => Err(failed(io::ErrorKind::WouldBlock.into())),
        }
    }

    /// Claims no more than what was granted with a number up to this one.
    pub(crate) fn claim_no_more_than(&self, number: Token) {
        // If this failed, the claim would end with the session.
        let _ = platform::unlock_from(&self.file, number.get().saturating_add(1));
    }

    /// A descriptor that keeps the session alive in whoever inherits it; it closes on exec.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd> {
        let copy = platform::duplicate(&self.file);
        copy.map_err(|source| Error::io("duplicate", &self.path, source))
    }

    /// Removes the file, still locked. To be called when the row is gone. What cannot be
    /// removed is left to whoever clears up.
    pub(crate) fn end(&self) {
        // A forked child does not end the session of its parent.
        if self.process == std::process::id() && self.is_in_place() {
            let _ = platform::unlink(&self.path);
        }
    }
}

/// Makes the file, and its directory where that is missing; None if the file is there.
fn create(directory: &Path, path: &Path) -> Result<Option<File>> {
    let created = match platform::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = platform::make_directory(directory);
            made.map_err(|source| Error::io("make", directory, source))?;
            platform::create_new(path)
        }
        created => created,
    };
    created.map_err(|source| Error::io("create", path, source))
}

/// Locks a new file; None if it was removed meanwhile.
fn lock(file: &File, path: &Path) -> Result<Option<Identity>> {
    for _ in 0..TRIES {
        let locked = platform::try_flock(file, Share::Exclusive);
        if !locked.map_err(|source| Error::io("lock", path, source))? {
            thread::sleep(PAUSE);
            continue;
        }
        let failed = |source| Error::io("look at", path, source);
        let own = platform::standing_of(file).map_err(failed)?;
        let here = platform::standing_at(path).map_err(failed)?;
        let in_place = here.is_some_and(|here| here.identity == own.identity);
        return Ok(in_place.then_some(own.identity));
    }
    Ok(None)
}

/// What the kernel says of a session, by what its row says of its file.
pub(crate) fn prove(
    directory: &Path,
    session: &SessionId,
    device: u64,
    inode: u64,
    boot_id: &str,
) -> Result<Proof> {
    if boot_id != clock::boot_id()? {
        return Ok(Proof::Dead);
    }
    let recorded = Identity { device, inode };
    let path = directory.join(session.as_str());
    Ok(match look(&path)? {
        Seen::Locked(identity) if identity == recorded => Proof::Alive,
        Seen::Free(identity, _file) if identity == recorded => Proof::Dead,
        _ => Proof::Unknown,
    })
}

/// Removes the file of a dead session; false if it is alive. One without a file is buried.
///
/// What else the dead left is removed by `rest`, before the file: whoever is killed in between
/// leaves the file, by which the next finds the rest. The proof of death lasts until all of it is
/// gone, and of a session that is alive nothing is touched.
///
/// Two may do it at once: a session's id is never used again, so there is nothing else that the
/// second could remove.
pub(crate) fn bury(directory: &Path, session: &SessionId, rest: impl FnOnce()) -> Result<bool> {
    let path = directory.join(session.as_str());
    match look(&path)? {
        // The shared lock lasts until the file is removed.
        Seen::Free(_, _file) => {
            rest();
            let removed = platform::unlink(&path);
            removed.map_err(|source| Error::io("remove", &path, source))?;
            Ok(true)
        }
        Seen::Nothing => {
            rest();
            Ok(true)
        }
        Seen::Locked(_) | Seen::Other => Ok(false),
    }
}

/// How many sessions have their file locked; at most a thousand are counted.
pub(crate) fn count_alive(directory: &Path) -> Result<usize> {
    count(directory, |path| Ok(matches!(look(path)?, Seen::Locked(_))))
}

/// How many sessions claim what was granted with a number above this one; at most a thousand
/// are counted.
pub(crate) fn count_claims_above(directory: &Path, number: Token) -> Result<usize> {
    count(directory, |path| {
        let failed = |source| Error::io("look at", path, source);
        match platform::open_to_look(path) {
            Ok(None) => Ok(false),
            Ok(Some(file)) => {
                let claims = platform::is_locked_from(&file, number.get().saturating_add(1));
                claims.map_err(failed)
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(failed(error)),
        }
    })
}

fn count(directory: &Path, is_one: impl Fn(&Path) -> Result<bool>) -> Result<usize> {
    let paths = files(directory)?;
    let mut count = 0;
    for path in paths {
        if is_one(&path?)? {
            count += 1;
        }
        if count == COUNT_MAX {
            break;
        }
    }
    Ok(count)
}

/// The sessions whose file nobody has locked, some at a time: candidates for being buried.
/// Drafts that nobody has locked are removed on the way.
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
        if !matches!(look(&path)?, Seen::Free(..)) {
            continue;
        }
        match session {
            Some(session) => dead.push(session),
            None => {
                let removed = platform::unlink(&path);
                removed.map_err(|source| Error::io("remove", &path, source))?;
            }
        }
        if dead.len() == limit {
            break;
        }
    }
    Ok(dead)
}

fn files(directory: &Path) -> Result<impl Iterator<Item = Result<PathBuf>>> {
    let failed = move |source| Error::io("list", directory, source);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let entries = entries.into_iter().flatten();
    Ok(entries.map(move |entry| entry.map(|entry| entry.path()).map_err(failed)))
}

/// What a look at a session's file found.
enum Seen {
    /// Someone has it locked.
    Locked(Identity),
    /// Nobody has: it is locked shared for as long as this lives.
    Free(
        Identity,
        #[allow(dead_code, reason = "it holds the lock")] File,
    ),
    /// No file is there.
    Nothing,
    /// Something that cannot be looked at, or was replaced meanwhile.
    Other,
}

fn look(path: &Path) -> Result<Seen> {
    let failed = |source| Error::io("look at", path, source);
    let file = match platform::open_to_look(path) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(Seen::Nothing),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Seen::Other),
        Err(error) => return Err(failed(error)),
    };
    let own = platform::standing_of(&file).map_err(failed)?;
    if own.kind != FileType::RegularFile {
        return Ok(Seen::Other);
    }
    if !platform::try_flock(&file, Share::Shared).map_err(failed)? {
        return Ok(Seen::Locked(own.identity));
    }
    match platform::standing_at(path).map_err(failed)? {
        None => Ok(Seen::Nothing),
        Some(here) if here.identity == own.identity => Ok(Seen::Free(own.identity, file)),
        Some(_) => Ok(Seen::Other),
    }
}

#[cfg(test)]
mod tests;
