//! Remembers the claims of a coding agent, so that its hooks renew them.

use std::path::{Path, PathBuf};

use tenure::store_choice::state_directory;
use tenure::{Owner, Result, Timestamp, clock};
use tenure_work::agents::claim_notes::{ClaimNote, ClaimNotes, ClaimedIn};

use crate::output::word;

/// Remembers a claim that was just made or renewed, if an agent has it. One that cannot be remembered lasts for its time.
pub fn remember(
    (kind, directory): (ClaimedIn, &Path),
    id: &str,
    owner: &str,
    token: u64,
    expires_at: Timestamp,
) {
    if !owner.starts_with("agent:") {
        return;
    }
    let now = clock::now();
    let remembered = || -> Result<()> {
        let claim = ClaimNote {
            kind,
            directory: absolute(directory)?,
            id: id.to_owned(),
            token,
            ttl_ms: u64::try_from(expires_at.since(now).as_millis()).unwrap_or(u64::MAX),
            renewed_at: now,
        };
        let owner =
            Owner::parse(owner).map_err(|error| tenure::Error::BadInput(error.to_string()))?;
        let notes = ClaimNotes::new(&state_directory(&crate::surface::environment()?)?);
        notes.add(&owner, claim)
    };
    if let Err(error) = remembered() {
        word(&format!("hooks will not renew this claim: {error}"));
    }
}

/// Forgets a claim that was just ended, if an agent had it. One that cannot be forgotten is dropped when it is to be renewed.
pub fn forget((kind, directory): (ClaimedIn, &Path), id: &str, owner: &Owner) {
    if !owner.as_str().starts_with("agent:") {
        return;
    }
    let forgotten = || -> Result<()> {
        let notes = ClaimNotes::new(&state_directory(&crate::surface::environment()?)?);
        notes.forget(owner, kind, &absolute(directory)?, id)
    };
    if let Err(error) = forgotten() {
        word(&format!(
            "tenure agent ls may show this claim for a while: {error}"
        ));
    }
}

fn absolute(directory: &Path) -> Result<PathBuf> {
    let found = std::path::absolute(directory);
    found.map_err(|source| tenure::Error::io("find", directory, source))
}
