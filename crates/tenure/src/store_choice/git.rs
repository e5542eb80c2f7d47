//! Finds the git repository around a directory, without running git.
//!
//! A work tree has a `.git` directory, or a `.git` file that says `gitdir: PATH`. A git
//! directory has a `HEAD`; that of a linked worktree also has a file `commondir` with the
//! way to the directory that all worktrees share.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

use super::Environment;

/// The longest `.git` and `commondir` files.
const POINTER_BYTES_MAX: u64 = 8192;

/// A git repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The directory in which it was found: that of the worktree, or of a bare repository.
    pub found_in: PathBuf,
    /// The directory that all its worktrees share.
    pub common: PathBuf,
    /// The main worktree, or `None` in a bare repository and where the path to it is not written
    /// down.
    pub main_worktree: Option<PathBuf>,
}

/// Returns the common directory of the repository that git itself would use here.
pub(super) fn common_directory(environment: &Environment) -> Result<Option<PathBuf>> {
    let here = &environment.directory;
    if let Some(common) = environment.get("GIT_COMMON_DIR") {
        return Ok(Some(tidy(&here.join(common))));
    }
    if let Some(git_dir) = environment.get("GIT_DIR") {
        let git_dir = tidy(&here.join(git_dir));
        let common = common_of(&git_dir).ok_or_else(|| {
            Error::configuration(
                format!("GIT_DIR is no git directory: {}", git_dir.display()),
                "unset GIT_DIR, or name a store with {$store}",
            )
        });
        return common.map(Some);
    }
    Ok(around(here)?.map(|repository| repository.common))
}

/// Returns the repository a directory is in.
///
/// A `.git` file that leads nowhere is refused, as git does: a process that went on without it
/// would lock in another store than the other worktrees, and exclude none of them.
pub(super) fn around(directory: &Path) -> Result<Option<Repository>> {
    let found = directory
        .ancestors()
        .find_map(|above| at(above).transpose());
    found.transpose()
}

fn at(directory: &Path) -> Result<Option<Repository>> {
    let dot_git = directory.join(".git");
    let git_dir = match fs::metadata(&dot_git) {
        Ok(metadata) if metadata.is_dir() => Some(dot_git),
        Ok(metadata) if metadata.is_file() => {
            let git_dir = pointer(&dot_git, "gitdir:", directory);
            if git_dir.as_deref().and_then(common_of).is_none() {
                return Err(leads_nowhere(&dot_git, git_dir.as_deref()));
            }
            git_dir
        }
        _ => None,
    };
    let git_dir = git_dir.as_deref();
    if let Some(common) = git_dir.and_then(common_of) {
        // The directory of a linked worktree is elsewhere.
        let main_worktree = if git_dir == Some(&common) {
            Some(directory.to_owned())
        } else {
            worktree_of(&common)
        };
        return Ok(Some(Repository {
            found_in: directory.to_owned(),
            common,
            main_worktree,
        }));
    }
    // A bare repository, or the inside of a git directory, where hooks run.
    Ok(common_of(directory).map(|common| Repository {
        found_in: directory.to_owned(),
        main_worktree: worktree_of(&common),
        common,
    }))
}

fn leads_nowhere(dot_git: &Path, git_dir: Option<&Path>) -> Error {
    let dot_git = dot_git.display();
    Error::configuration(
        match git_dir {
            Some(to) => format!("{dot_git} points to {}, no git directory", to.display()),
            None => format!("{dot_git} does not say where the git directory is"),
        },
        "repair the worktree (git worktree repair), or name a store with {.store}",
    )
}

/// Returns the common directory of a git directory, if it is one.
fn common_of(git_dir: &Path) -> Option<PathBuf> {
    // HEAD may be a dangling symbolic link in old repositories.
    fs::symlink_metadata(git_dir.join("HEAD")).ok()?;
    let common = pointer(&git_dir.join("commondir"), "", git_dir);
    Some(common.unwrap_or_else(|| git_dir.to_owned())).filter(|common| is_common(common))
}

fn is_common(directory: &Path) -> bool {
    let has = |name| directory.join(name).is_dir();
    has("objects") && has("refs")
}

/// Returns the main worktree of a common directory: the parent of its `.git`.
fn worktree_of(common: &Path) -> Option<PathBuf> {
    let named = common.file_name().is_some_and(|name| name == ".git");
    let parent = common.parent().filter(|_| named)?;
    Some(parent.to_owned())
}

/// Reads a file of one line that names a path.
fn pointer(file: &Path, start: &str, base: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut bytes = Vec::new();
    let file = fs::File::open(file).ok()?;
    file.take(POINTER_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let path = bytes.strip_prefix(start.as_bytes())?;
    let path = path.strip_prefix(b" ").unwrap_or(path);
    let path = path.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
    let path = std::ffi::OsStr::from_bytes(path);
    (!path.is_empty()).then(|| tidy(&base.join(path)))
}

/// Takes `..` and `.` out where that is safe: git writes `commondir` as `../..` below
/// directories that it made itself. Worktrees then name their store alike.
fn tidy(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
