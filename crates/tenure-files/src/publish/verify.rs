//! The files of a published directory, and their differences from a manifest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tenure_api::publish::{Difference, PublishedFile};
use tenure_core::{Error, Result};

use super::PublishTarget;

/// Returns a file as a manifest has it.
pub(super) fn published_file(relative_path: String, sha256: String, mode: u32) -> PublishedFile {
    PublishedFile {
        relative_path,
        sha256,
        mode: Some(format!("{mode:o}")),
        link: None,
    }
}

/// Returns a link as a manifest has it.
pub(super) fn published_link(relative_path: String, target: &str) -> PublishedFile {
    let mut hash = Sha256::new();
    hash.update(target);
    PublishedFile {
        relative_path,
        sha256: hex(hash),
        mode: None,
        link: Some(target.to_owned()),
    }
}

pub(super) fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl PublishTarget {
    /// Compares every file of the target with a manifest. Takes no lock.
    pub fn compare(&self, files: &[PublishedFile]) -> Result<Vec<Difference>> {
        let mut expected: BTreeMap<&str, &PublishedFile> = files
            .iter()
            .map(|file| (file.relative_path.as_str(), file))
            .collect();
        let mut differences = Vec::new();
        compare(self.target(), "", &mut expected, &mut differences)?;
        differences.extend(
            expected
                .into_keys()
                .map(|path| difference(path, "it is missing")),
        );
        differences.sort_by(|a, b| a.relative_path.cmp(&b.relative_path));
        Ok(differences)
    }
}

fn difference(path: &str, problem: &str) -> Difference {
    Difference {
        relative_path: path.to_owned(),
        problem: problem.to_owned(),
    }
}

fn compare(
    directory: &Path,
    relative: &str,
    expected: &mut BTreeMap<&str, &PublishedFile>,
    differences: &mut Vec<Difference>,
) -> Result<()> {
    let read = |error| Error::io("read", directory, error);
    for entry in fs::read_dir(directory).map_err(read)? {
        let entry = entry.map_err(read)?;
        let (path, name) = (entry.path(), entry.file_name());
        let relative = match relative {
            "" => name.to_string_lossy().into_owned(),
            above => format!("{above}/{}", name.to_string_lossy()),
        };
        let kind = entry.file_type().map_err(read)?;
        if kind.is_dir() {
            compare(&path, &relative, expected, differences)?;
            continue;
        }
        let Some(wanted) = expected.remove(relative.as_str()) else {
            differences.push(difference(&relative, "it is not in the manifest"));
            continue;
        };
        let found = if kind.is_symlink() {
            fs::read_link(&path)
                .map(|target| published_link(relative.clone(), &target.to_string_lossy()))
        } else {
            hashed(&path, &relative)
        };
        let problem = match found {
            Err(error) => format!("it cannot be read: {error}"),
            Ok(found) if found.link.is_some() != wanted.link.is_some() => {
                "it is a link where it should be a file, or the other way round".into()
            }
            Ok(found) if found.sha256 != wanted.sha256 => "its content is another".into(),
            Ok(found) if found.mode != wanted.mode => {
                let mode = |file: &PublishedFile| file.mode.clone().unwrap_or_default();
                format!("its mode is {}, not {}", mode(&found), mode(wanted))
            }
            Ok(_) => continue,
        };
        differences.push(difference(&relative, &problem));
    }
    Ok(())
}

fn hashed(path: &Path, relative: &str) -> io::Result<PublishedFile> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 128 * 1024];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            count => hash.update(&chunk[..count]),
        }
    }
    let mode = found.mode() & 0o7777;
    Ok(published_file(relative.to_owned(), hex(hash), mode))
}
