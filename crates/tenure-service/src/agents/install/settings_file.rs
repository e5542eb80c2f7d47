//! The files of settings: checks whose they are, reads them and writes them.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tenure::config::WhenUnsure;
use tenure::{Error, Result};
use tenure_files::document::{Content, Documents, Terms, check_json};
use tenure_lockfile::FileLocker;
use tenure_os::replace::target_of_temporary;

use tenure_api::agents::Program;
use tenure_work::agents::install::hooks::{self, Changed};

use crate::WAIT_DEFAULT;

/// Reads a file, if it is there.
///
/// # Errors
///
/// `NotAllowed` for a link on the way from the worktree and for a file of another user: either
/// could make this process change a file that the person did not mean.
pub fn read(worktree: &Path, name: &str) -> Result<Option<String>> {
    let mut path = worktree.to_owned();
    for part in Path::new(name) {
        path.push(part);
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("look at", path, error)),
        };
        let problem = if metadata.is_symlink() {
            "is a link"
        } else if metadata.uid() != rustix::process::geteuid().as_raw() {
            "belongs to another user"
        } else {
            continue;
        };
        return Err(Error::not_allowed(
            format!("{} {problem}, and is not changed", path.display()),
            "replace it by a file of your own, or add by hand what install shows for another directory",
        ));
    }
    let bytes = fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Error::BadInput(format!("{} is not UTF-8", path.display())));
    text.map(Some)
}

/// Checks that the text of a settings file is JSON.
pub fn check(text: Option<&str>, path: &Path) -> Result<()> {
    let shown = path.display();
    let checked = text.map_or(Ok(()), |text| check_json(text, || shown.to_string()));
    checked.map_err(|problem| Error::BadInput(format!("{problem}; it is untouched")))
}

/// Adds hooks under the lock of the file, which is read anew.
pub fn add_hooks(program: Program, when_unsure: WhenUnsure, path: &Path) -> Result<Changed> {
    if let Some(directory) = path.parent() {
        let made = fs::create_dir_all(directory);
        made.map_err(|error| Error::io("make", directory, error))?;
    }
    let work = |old: &[Option<Content>]| {
        let old = old[0].as_ref().map(Content::text).transpose()?;
        check(old, path)?;
        let changed = hooks::add(program, when_unsure, old, &path.display().to_string())?;
        let text = changed.text.clone().unwrap_or_default();
        Ok::<_, Error>((vec![text], changed))
    };
    let is_new = !path.exists();
    let documents = Documents::new(WAIT_DEFAULT);
    let (_, changed) = documents.edit(&[path], &Terms::default(), work)?;
    if is_new {
        let_others_read(path)?;
    }
    Ok(changed)
}

/// Takes hooks out under the lock of the file, which is read anew.
pub fn take_out_hooks(program: Program, path: &Path) -> Result<Changed> {
    // A file that is removed with its last hooks is no document any more, so the lock is taken by
    // hand.
    let locker = FileLocker::new(WAIT_DEFAULT);
    let lock = locker.lock_exclusive(&Documents::lock_file(path)?)?;
    let old = fs::read_to_string(path).map_err(|error| Error::io("read", path, error))?;
    check(Some(&old), path)?;
    let changed = hooks::take_out(program, &old);
    match &changed.text {
        Some(text) if *text == old => {}
        Some(text) => tenure_os::replace::replace_file(path, text.as_bytes())?,
        None => remove(path)?,
    }
    lock.release()?;
    Ok(changed)
}

/// Keeps other installs out of a worktree until it is dropped. The directory itself is locked, so
/// that no lock file stays in it.
pub fn lock_worktree(worktree: &Path) -> Result<File> {
    let failed = |error| Error::io("lock", worktree, error);
    let directory = File::open(worktree).map_err(failed)?;
    let deadline = Instant::now() + WAIT_DEFAULT;
    loop {
        match directory.try_lock() {
            Ok(()) => return Ok(directory),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// Removes temporary files that killed installs left beside a settings file. Without a lock file no
/// install has ever changed it.
pub fn clean(path: &Path) -> Result<()> {
    let lock = Documents::lock_file(path)?;
    if !lock.exists() {
        return Ok(());
    }
    let lock = FileLocker::new(WAIT_DEFAULT).lock_exclusive(&lock)?;
    remove_temporaries(path)?;
    lock.release()
}

/// Removes the temporary files of a file whose writers the caller keeps out.
pub fn remove_temporaries(path: &Path) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let failed = |error| Error::io("list", directory, error);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if target_of_temporary(&entry.file_name()) == path.file_name() {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Gives a new file the mode that an editor would give it, as the file is to be committed.
pub fn let_others_read(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o666 & !umask());
    fs::set_permissions(path, mode).map_err(|error| Error::io("set the mode of", path, error))
}

/// Returns the permission bits that new files do not get. The system call `umask` would change them
/// for all threads, so they are read from the kernel's status file.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok());
    umask.unwrap_or(0o077)
}

/// Removes a file that was made here.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
}

/// Makes the state directory. A sandbox may refuse to allow a directory that does not exist.
pub fn make_state_directory(directory: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|error| Error::io("make", PathBuf::from(directory), error))
}
