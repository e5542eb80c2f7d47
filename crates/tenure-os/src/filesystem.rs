//! The file systems on which `flock` can be trusted.
//!
//! On a network file system a lock may be local to one machine, or granted twice by two caches.
//! Such places are refused, and so are file systems that this list does not know, unless the caller
//! says that it knows better.

use std::path::Path;

use tenure_core::{Error, Result};

use crate::platform;

/// A file system, and what is known of its locks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileSystem {
    /// The name, or the magic number if it is not known.
    pub name: String,
    /// True if `flock` there excludes every process that can reach the file.
    pub trusted: bool,
}

/// The magic numbers from `linux/magic.h`, the names people know them by, and whether they are
/// local.
const KNOWN: &[(i64, &str, bool)] = &[
    (0xef53, "ext4", true),
    (0x5846_5342, "xfs", true),
    (0x9123_683e, "btrfs", true),
    (0x0102_1994, "tmpfs", true),
    (0x8584_58f6, "ramfs", true),
    (0x794c_7630, "overlayfs", true),
    (0x2fc1_2fc1, "zfs", true),
    (0xf2f5_2010, "f2fs", true),
    (0xca45_1a4e, "bcachefs", true),
    (0x3153_464a, "jfs", true),
    (0x5265_4973, "reiserfs", true),
    (0x6969, "nfs", false),
    (0xff53_4d42, "cifs", false),
    (0xfe53_4d42, "smb2", false),
    (0x517b, "smb", false),
    (0x00c3_6400, "ceph", false),
    (0x5346_414f, "afs", false),
    (0x6b41_4653, "afs", false),
    (0x0bd0_0bd0, "lustre", false),
    (0x0116_1970, "gfs2", false),
    (0x7461_636f, "ocfs2", false),
    (0x4750_4653, "gpfs", false),
    (0x1983_0326, "beegfs", false),
    (0x0102_1997, "9p", false),
    (0x6573_5546, "fuse", false),
    (0x6a65_6a63, "virtiofs", false),
];

/// Returns the file system that a path is on.
pub fn of(path: &Path) -> Result<FileSystem> {
    let magic = platform::file_system_magic(path)
        .map_err(|source| Error::io("look at the file system of", path, source))?;
    Ok(by_magic(magic))
}

fn by_magic(magic: i64) -> FileSystem {
    // 32-bit systems sign-extend the number.
    let magic = magic & 0xffff_ffff;
    let known = KNOWN.iter().find(|(number, ..)| *number == magic);
    match known {
        Some((_, name, trusted)) => FileSystem {
            name: (*name).to_owned(),
            trusted: *trusted,
        },
        None => FileSystem {
            name: format!("unknown (0x{magic:x})"),
            trusted: false,
        },
    }
}

/// Refuses a place where `flock` cannot be trusted.
pub fn require_trusted(path: &Path) -> Result<()> {
    let file_system = of(path)?;
    if file_system.trusted {
        return Ok(());
    }
    Err(Error::configuration(
        format!(
            "{} is on a file system where locks are not known to hold: {}",
            path.display(),
            file_system.name
        ),
        "use a local directory (for a store: {.store}), or, if you know that all its users are on this machine, set {$trust_flock}=1",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_unknown_file_systems_are_not_trusted() {
        for magic in [0x6969, 0xff53_4d42, -0xacb2be, 0x6573_5546, 0x1234_5678] {
            assert!(!by_magic(magic).trusted, "{:?}", by_magic(magic));
        }
    }

    #[test]
    fn local_file_systems_are_trusted_and_named() {
        for (magic, name) in [(0xef53, "ext4"), (0x0102_1994, "tmpfs")] {
            assert_eq!(
                by_magic(magic),
                FileSystem {
                    name: name.into(),
                    trusted: true
                }
            );
        }
    }

    #[test]
    fn a_32_bit_number_is_known_with_its_sign_extended() {
        let extended = i64::from(0x9123_683e_u32 as i32);
        assert_eq!(by_magic(extended).name, "btrfs");
    }
}
