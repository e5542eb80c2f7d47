//! The files of a database: whose they are, and who else could change them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tenure::Error;

use super::Check;

/// What stands beside a database, by the ends of the names.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-anchor"];
/// Others may neither read nor write any of them.
const OTHERS: u32 = 0o077;

/// Looks at the database and at what stands beside it.
pub fn all(path: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    for file in files(path) {
        match fs::symlink_metadata(&file) {
            Ok(metadata) => checks.extend(of_file(&file, &metadata)),
            // Made when it is needed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                checks.push(Check::failed(
                    "database",
                    &Error::io("look at", &file, error),
                ));
            }
        }
    }
    if checks.is_empty() && path.exists() {
        let detail = format!("{}, for its owner alone", path.display());
        checks.push(Check::good("database", detail));
    }
    checks
}

/// A database so damaged that it cannot be opened.
pub fn damaged(path: &Path, error: &Error) -> Check {
    let path = path.display();
    let remedy = format!(
        "when nothing is held, move {path} away, and {path}-wal and {path}-shm with it: the next \
         use makes a new database. Leave {path}-anchor, which keeps tokens from going back"
    );
    Check::bad("open", error.to_string(), remedy)
}

fn files(path: &Path) -> Vec<PathBuf> {
    let beside = BESIDE.map(|end| {
        let mut name = OsString::from(path);
        name.push(end);
        PathBuf::from(name)
    });
    [path.to_owned()].into_iter().chain(beside).collect()
}

/// Returns what is wrong with a file, if anything is.
fn of_file(file: &Path, metadata: &fs::Metadata) -> Option<Check> {
    let (shown, mode) = (file.display(), metadata.mode() & 0o7777);
    if !metadata.is_file() {
        let remedy = format!("when nothing is held, move {shown} away");
        let detail = format!("{shown} is no regular file");
        return Some(Check::bad("database", detail, remedy));
    }
    if mode & OTHERS != 0 {
        let detail = format!("{shown} has mode {mode:04o}: others can read or change the locks");
        return Some(Check::bad("database", detail, format!("chmod go= {shown}")));
    }
    None
}
