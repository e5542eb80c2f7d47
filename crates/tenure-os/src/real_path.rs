//! One path for a file, whatever it is called: locks on files meet there.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A longer chain of links is not followed.
const LINKS_MAX: usize = 40;

/// Returns the path of a file as programs in `directory` find it: absolute, and without links as
/// far as it exists. Returns `None` for a relative one without a directory.
pub fn real_path(directory: Option<&Path>, name: &Path) -> Option<PathBuf> {
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
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
