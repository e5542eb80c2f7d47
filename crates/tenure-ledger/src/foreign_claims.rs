//! Files of claims that other programs keep in `locks/`. Tenure writes none.
//!
//! A file whose time is over is removed once its claim is over in the ledger, too. If a program
//! writes a new file in that moment, that file stays: the removal renames first, looks again, and
//! puts a changed file back.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tenure_core::{Error, Result, Timestamp};

use super::Ledger;
use super::names::displaced;

/// The largest number of bytes that are read of such a file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

#[derive(Deserialize)]
struct ClaimFile {
    node_id: String,
    owner: String,
    expires_at: Timestamp,
}

impl Ledger {
    /// Removes files of claims that are over.
    pub(super) fn remove_foreign_claims(&self) -> Result<()> {
        let directory = self.names.foreign_claims();
        let names = match self.disk.names(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(|source| Error::io("list", &directory, source))?,
        };
        let state = self.state()?;
        let now = state.claims.time((self.now)());
        for name in names {
            let path = directory.join(name);
            if path.extension() != Some(OsStr::new("lock")) {
                continue;
            }
            let Some((file, bytes)) = self.claim_file(&path) else {
                (self.tell)(&format!(
                    "{} is not the file of a claim; it stays",
                    path.display()
                ));
                continue;
            };
            let claim = state.claims.get(&file.node_id);
            let is_held =
                claim.is_some_and(|claim| claim.owner == file.owner && !claim.is_over(now));
            if file.expires_at < now && !is_held {
                self.remove_claim_file(path, &bytes)?;
            }
        }
        Ok(())
    }

    fn claim_file(&self, path: &Path) -> Option<(ClaimFile, Vec<u8>)> {
        let bytes = self.disk.content(path, FILE_BYTES_MAX).ok()??;
        Some((serde_json::from_slice(&bytes).ok()?, bytes))
    }

    fn remove_claim_file(&self, path: PathBuf, seen: &[u8]) -> Result<()> {
        let failed = |source| Error::io("remove", &path, source);
        let Some(identity) = self.disk.identity(&path).map_err(failed)? else {
            return Ok(());
        };
        let to = displaced(&path);
        if !self.displace(&path, to.clone(), identity)? {
            return Ok(());
        }
        let content = self.disk.content(&to, FILE_BYTES_MAX).ok().flatten();
        if content.as_deref() == Some(seen) {
            return self.disk.remove(&to).map_err(failed);
        }
        let _ = self.disk.rename_without_replacing(&to, &path);
        Ok(())
    }
}
