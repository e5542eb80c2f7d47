//! Removes the files that crashed writers of a document left.

use std::path::Path;
use std::slice;

use tenure::{Error, Mode, Result};
use tenure_api::doc::{Clean, Cleaned};
use tenure_files::document::Documents;

use crate::waiting::for_files;
use crate::{Caller, Handle, Service};

impl Handle<Clean> for Service {
    async fn handle(&self, request: Clean, caller: &Caller) -> Result<Cleaned> {
        let file = request.file;
        let access = self.access(slice::from_ref(&file), request.compat, request.wait, caller)?;
        if !is_known(&file) {
            return Err(Error::NotFound(format!(
                "there is no document {}, nor anything left of one",
                file.display()
            )));
        }
        let wait = access.wait(slice::from_ref(&file), Mode::Write)?;
        let documents = access.documents;
        let clean = move || match request.dry_run {
            true => documents.leftovers(&file),
            false => documents.clean(&file),
        };
        let removed = for_files(&wait, &access.teller, clean).await?;
        let removed = removed.iter().map(|path| path.display().to_string());
        Ok(Cleaned {
            removed: removed.collect(),
            next: None,
        })
    }
}

/// Returns true if the document exists, or its lock file, which a crash while it was made leaves.
fn is_known(path: &Path) -> bool {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    is_there(path) || Documents::lock_file(path).is_ok_and(|lock| is_there(&lock))
}
