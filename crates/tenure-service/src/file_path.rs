//! The path of a file in a resource. A file has one lock, however its path is written.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tenure::{Error, Resource, Result};
use tenure_os::real_path::real_path;

/// Returns a resource under the one name that all callers use. The path of a file is made absolute
/// and clean, and its links are followed, so that a caller that names the file meets the lock that
/// the guard of edits took.
///
/// # Errors
///
/// `BadInput` for a path that cannot be found from `here`.
pub fn absolute(resource: Resource, here: Option<&Path>) -> Result<Resource> {
    if resource.kind() != "file" {
        return Ok(resource);
    }
    let path = PathBuf::from(OsString::from_vec(resource.raw_id()));
    let found = real_path(here, &path).ok_or_else(|| {
        let problem = format!("{} cannot be found from here", path.display());
        Error::BadInput(problem)
    })?;
    let named = Resource::new("file", found.as_os_str().as_bytes());
    named.map_err(|error| Error::BadInput(error.to_string()))
}
