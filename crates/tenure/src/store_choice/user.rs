//! The store `user:`: a database in the user's state directory that belongs to one repository.
//!
//! Sandboxes of coding agents often make `.git` read-only, so a store in there is out of their
//! reach. This one is in `<state>/repositories/NAME-HASH/`, where the hash is that of the canonical
//! path of the git common directory: all worktrees have the same one. A repository inside of
//! another that has no `tenure.toml` of its own, such as a submodule, shares the store of the outer
//! one. Outside of a repository it is the ordinary store of the user.

use std::fs;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};
use tenure_files::document::Version;

use super::{Environment, git, state_directory};

/// The scheme of the address.
const SCHEME: &str = "user:";
/// The directory of the stores of repositories, in the state directory.
const REPOSITORIES: &str = "repositories";
/// The number of digits of the hash in the name of a directory.
const HASH_DIGITS: usize = 16;
/// The longest part of a repository's own name in the name of a directory.
const NAME_CHARS_MAX: usize = 40;

/// Returns true if an address has this scheme.
pub(super) fn is(url: &str) -> bool {
    url.starts_with(SCHEME)
}

/// Returns the directory of the store, which may not be there yet. `named_in` is the `tenure.toml`
/// that names it.
pub(super) fn directory(
    url: &str,
    named_in: Option<&Path>,
    environment: &Environment,
) -> Result<PathBuf> {
    if url != SCHEME {
        return Err(Error::configuration(
            format!("bad store {url:?}: user: takes no path, since the repository decides it"),
            "write user: alone, or sqlite:PATH for a place of your own",
        ));
    }
    let state = state_directory(environment)?;
    let around_file = match named_in.and_then(Path::parent) {
        Some(directory) => git::around(directory)?.map(|repository| repository.common),
        None => None,
    };
    let common = match around_file {
        Some(common) => Some(common),
        None => git::common_directory(environment)?,
    };
    Ok(match common {
        Some(common) => state.join(REPOSITORIES).join(name_of(&common)),
        None => state,
    })
}

/// Returns the name by which a repository is kept: its own name, for people, and the hash of its
/// path.
fn name_of(common: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let common = fs::canonicalize(common).unwrap_or_else(|_| common.to_owned());
    let hash = Version::of(common.as_os_str().as_bytes()).to_string();
    let named = match common.file_name() {
        Some(name) if name == ".git" => common.parent().and_then(Path::file_name),
        name => name,
    };
    let name = named.unwrap_or_default().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .take(NAME_CHARS_MAX)
        .collect();
    format!("{name}-{}", &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_kept_under_its_name_and_the_hash_of_its_path() {
        let name = name_of(Path::new("/no-such/my shop/.git"));
        assert!(name.starts_with("my_shop-"), "{name}");
        assert_eq!(name.len(), "my_shop-".len() + HASH_DIGITS);
        assert_ne!(name, name_of(Path::new("/no-such-other/my shop/.git")));
        assert!(name_of(Path::new("/no-such/bare.git")).starts_with("bare.git-"));
    }
}
