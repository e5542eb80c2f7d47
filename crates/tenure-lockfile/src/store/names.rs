//! File names of resources, and back.
//!
//! The canonical spelling of a resource has no `,` and no `#`, so `/` becomes `,`, and a name too
//! long for a file is cut, with `#` and a hash of the whole. A cut name cannot be read back; the
//! records inside tell the resource.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tenure_core::Resource;

/// The longest name that is not cut. With the ending it stays below the 255 bytes of a file name.
const NAME_BYTES_MAX: usize = 200;
const ENDING: &str = ".lock";

/// Returns the name of the lock file of a resource.
pub(super) fn file_name(resource: &Resource) -> String {
    let mut name = resource.as_str().replace('/', ",");
    if name.len() > NAME_BYTES_MAX {
        let hash = Sha256::digest(resource.as_str().as_bytes());
        name.truncate(name.floor_char_boundary(100));
        name.push('#');
        for byte in &hash[..16] {
            write!(name, "{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    name.push_str(ENDING);
    name
}

/// The resource that a file name tells, as far as it does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The name is that of this resource.
    Resource(Resource),
    /// The name is cut: the resource has a long name.
    Cut,
}

/// Reads a file name; returns `None` if it is not of a lock file.
pub(super) fn read(name: &str) -> Option<Named> {
    let name = name.strip_suffix(ENDING)?;
    if name.contains('#') {
        return Some(Named::Cut);
    }
    let resource = Resource::parse(&name.replace(',', "/")).ok()?;
    // A name without a kind is not of this store, which writes the kind.
    (file_name(&resource).strip_suffix(ENDING) == Some(name)).then_some(Named::Resource(resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for text in [
            "build",
            "map:atlas/m3",
            "file:/a/b c".replace(' ', "%20").as_str(),
            "name:é",
        ] {
            let resource = Resource::parse(text).unwrap();
            assert_eq!(read(&file_name(&resource)), Some(Named::Resource(resource)));
        }
    }

    #[test]
    fn every_raw_byte_makes_a_name_without_separators() {
        for byte in 0..=255u8 {
            let resource = Resource::new("name", [byte]).unwrap();
            let name = file_name(&resource);
            assert!(!name.contains(['/', '\0']) && name.len() < 256, "{name}");
            assert_eq!(read(&name), Some(Named::Resource(resource)));
        }
    }

    #[test]
    fn long_names_differ_by_their_hash_and_fit() {
        let long = |last: char| Resource::parse(&format!("{}{last}", "é".repeat(400))).unwrap();
        let (a, b) = (file_name(&long('a')), file_name(&long('b')));
        assert_ne!(a, b);
        assert!(a.len() < 256);
        assert_eq!(read(&a), Some(Named::Cut));
    }

    #[test]
    fn foreign_files_are_not_lock_files() {
        for name in [
            "tokens",
            "build.lock",
            "name:a b.lock",
            "name:a.lock.tmp",
            ".x.lock",
            ".lock",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
