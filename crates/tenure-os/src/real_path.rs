//! One path for a file, under whatever name it is called: all its locks are then taken at that
//! path.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The largest number of links that are followed in a chain.
const LINKS_MAX: usize = 40;

/// Returns the path of a file as programs in `directory` find it: absolute, and without links as
/// far as it exists. Returns `None` for a relative name without a directory.
pub fn real_path(directory: Option<&Path>, name: &Path) -> Option<PathBuf> {
    let path = if name.is_absolute() {
        name.to_owned()
    } else {
        directory?.join(name)
    };
    let path = target_of(path);
    for above in path.ancestors() {
        if let Ok(found) = fs::canonicalize(above) {
            let rest = path.strip_prefix(above).ok()?;
            // The part of the path that is missing has no links: `..` in it goes up by name.
            return Some(if rest.as_os_str().is_empty() {
                found
            } else {
                plain(&found.join(rest))
            });
        }
    }
    None
}

/// Follows a link whose target does not exist yet: a program that writes to the link makes the
/// target.
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
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
